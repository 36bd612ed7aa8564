/** Routes that others add to the server. */
import test from 'ava';
import { json, startApi } from '../helpers/salt-api.ts';

test('a plugin has its paths, its parsers and its errors, and the token behind a session', async (t) => {
  const tokens: (string | undefined)[] = [];
  const { ask, login, master } = await startApi(t, {
    options: {
      rootPrefix: '/salt',
      plugins: [
        {
          prefix: '/more/v1',
          register: (app, doors) => {
            app.get('/who', async (request) => {
              tokens.push(doors.tokenOf(request));
              return { ok: true };
            });
            app.get('/broken', async () => {
              throw new Error('here');
            });
            app.setErrorHandler((_error, _request, reply) => reply.code(418).send({ own: true }));
          },
        },
      ],
    },
    login: '/salt/login',
  });
  const session = await login();
  const headers = json(session);
  t.deepEqual((await ask({ path: '/salt/more/v1/who', headers })).json, { ok: true });
  t.not(tokens[0], session);
  t.is((await master.logins.identify(tokens[0] ?? '')).user, 'admin');
  await ask({ path: '/salt/more/v1/who', headers: json('unknown') });
  await ask({ path: '/salt/more/v1/who' });
  t.deepEqual(tokens.slice(1), ['unknown', undefined]);
  const broken = await ask({ path: '/salt/more/v1/broken' });
  t.deepEqual([broken.status, broken.json], [418, { own: true }]);
  t.is((await ask({ path: '/salt/more/v1/nothing' })).status, 404);
});
