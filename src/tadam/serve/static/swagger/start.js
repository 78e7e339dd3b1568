// Shows the OpenAPI document of this server; nothing is fetched from elsewhere.
SwaggerUIBundle({ url: "/api/v1/openapi.json", dom_id: "#swagger", validatorUrl: null });
