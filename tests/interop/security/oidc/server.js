// A real OpenID provider on the loopback: one client, tokens by client credentials for the audience `kafka`.
// Its argument is the issuer's port; it prints a line when it listens.
import Provider from "oidc-provider";

const [port, id, secret] = process.argv.slice(2);
const issuer = `http://localhost:${port}`;
const provider = new Provider(issuer, {
  clients: [
    {
      client_id: id,
      client_secret: secret,
      grant_types: ["client_credentials"],
      redirect_uris: [],
      response_types: [],
      token_endpoint_auth_method: "client_secret_basic",
    },
  ],
  scopes: ["produce"],
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => "urn:kafka",
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        scope: "produce",
        audience: "kafka",
        accessTokenFormat: "jwt",
        accessTokenTTL: 3600,
        jwt: { sign: { alg: "RS256" } },
      }),
    },
  },
});
provider.listen(Number(port), "localhost", () => console.log("listening"));
