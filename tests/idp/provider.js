// An identity provider for the tests: npm oidc-provider, configured for client credentials.
//
// Prints a line "issuer URL" when it is up. POST /control with {"rotate": true} puts a new signing key in front of the old
// one, {"drop": true} leaves the newest alone; tokens live on, since they are kept outside the provider.
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const FORMATS = { 'https://llm.example.com/jwt': 'jwt', 'https://llm.example.com/opaque': 'opaque', 'https://llm.example.com/bound': 'jwt', 'https://other.example.com': 'jwt' };

function key() {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), use: 'sig', alg: 'RS256' };
}

function client(id, grants) {
  return {
    client_id: id,
    client_secret: `secret-of-${id}`,
    grant_types: grants,
    redirect_uris: [],
    response_types: [],
    token_endpoint_auth_method: 'client_secret_basic',
  };
}

const keys = [key()];
let provider;

function build(issuer) {
  const made = new Provider(issuer, {
    jwks: { keys },
    clients: [client('app', ['client_credentials']), client('gateway', [])],
    cookies: { keys: ['for no browser'] },
    scopes: ['chat', 'models'],
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      introspection: { enabled: true, allowedPolicy: (_, asking) => asking.clientId === 'gateway' },
      revocation: { enabled: true, allowedPolicy: (_, asking, token) => asking.clientId === token.clientId },
      dPoP: { enabled: true, requireNonce: () => false, nonceSecret: Buffer.alloc(32, 7) },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, resource) => {
          if (!(resource in FORMATS)) throw new Error(`no such resource: ${resource}`);
          return {
            audience: resource,
            scope: 'chat models',
            accessTokenFormat: FORMATS[resource],
            accessTokenTTL: 300,
            jwt: { sign: { alg: 'RS256' } },
          };
        },
      },
    },
  });
  made.on('server_error', (_, error) => process.stderr.write(`${error.stack}\n`));
  return made;
}

async function control(request, response) {
  let text = '';
  for await (const piece of request) text += piece;
  const { rotate, drop } = JSON.parse(text);
  if (rotate) keys.unshift(key());
  if (drop) keys.splice(1);
  provider = build(provider.issuer);
  response.end(JSON.stringify({ kids: keys.map(({ kid }) => kid) }));
}

const server = createServer((request, response) => {
  if (request.url === '/control') control(request, response);
  else provider.callback()(request, response);
});
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  provider = build(issuer);
  process.stdout.write(`\nissuer ${issuer}\n`);
});
