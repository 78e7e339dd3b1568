"""The paper's tables, figures and lemma, computed and put beside what was published."""
