import http from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Cleanup } from './cleanup.ts';

/** A Keystone that knows one user. The test can change the groups of the user. */
export async function startKeystone(t: Cleanup) {
  const known = { groups: ['staff'] };
  const user = { id: 'u1', name: 'fred', domain: { id: 'default', name: 'Default' } };
  const token = { user, expires_at: '2099-01-01T00:00:00Z', roles: [] };
  const server = http.createServer(({ method, url = '' }, response) => {
    const groups = known.groups.map((name) => ({ name }));
    const body = url.endsWith('/groups') ? { groups } : { token };
    response
      .writeHead(method === 'POST' ? 201 : 200, { 'x-subject-token': 'abc' })
      .end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo; // the server listens on a port
  return { known, url: `http://127.0.0.1:${port}/v3` };
}
