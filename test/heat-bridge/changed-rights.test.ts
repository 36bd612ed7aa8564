/** Rights that change while a plan of their user runs. */

import test from 'ava';
import { allow } from '#acl';
import { startKeystone } from '../helpers/group-keystone.ts';
import { startBridge, twice } from './stage.ts';

test('a plan runs no further step after its user has left the group with the right', async (t) => {
  const { known, url } = await startKeystone(t);
  const isCalled = Promise.withResolvers<void>();
  const mayReturn = Promise.withResolvers<void>();
  const { bridge, master, seen } = await startBridge(t, {
    plans: [twice],
    ids: ['web1'],
    rules: [
      allow('staff', {
        subject: { group: 'staff' },
        action: 'command',
        resource: { fun: 'demo.echo', within: 'web*' },
      }),
    ],
    config: { externalAuth: { keystone: { fred: ['test.*'] } }, eauth: { keystoneAuthUrl: url } },
    functions: {
      'test.echo': async () => {
        isCalled.resolve();
        await mayReturn.promise;
        return true;
      },
    },
  });
  const credentials = { username: 'fred', password: 'secret', eauth: 'keystone' };
  const { token } = await master.logins.login(credentials);
  const asked = { groups: { all: 'web1' }, params: { text: 'x' }, caller: { token } };
  const { outcome } = await bridge.plan('demo.twice', asked);
  await isCalled.promise;
  known.groups = [];
  // The master learns the groups of the user at a log-in.
  await master.logins.login(credentials);
  t.deepEqual((await master.logins.identify(token)).groups, []);
  mayReturn.resolve();
  const { status, steps } = await outcome;
  t.is(status, 'failed');
  t.deepEqual(
    steps.map((it) => [it.step, it.status]),
    [
      ['one', 'succeeded'],
      ['two', 'failed'],
    ],
  );
  t.regex(steps[1]?.reason ?? '', /^ERR_COMMAND_DENIED: /);
  t.is(seen.length, 1);
});
