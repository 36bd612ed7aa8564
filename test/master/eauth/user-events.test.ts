/** Events as users have them: which they read, which they may fire. */
import test, { type ExecutionContext } from 'ava';
import { AuthenticationError, AuthorizationError, type UserApi } from '../../../master/index.ts';
import { otherKey } from '../../helpers/connected-minion.ts';
import { startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';

interface Running extends VectorMaster {
  as(user: string): Promise<UserApi>;
}

async function start(t: ExecutionContext): Promise<Running> {
  const running = await startVectorMaster(t, {
    keys: [otherKey('web1')],
    config: {
      eauth: { sharedsecret: 'secret' },
      externalAuth: {
        sharedsecret: {
          admin: ['.*'],
          fred: ['test.*', { '@runner': ['event.send'] }],
          ann: ['test.*'],
        },
      },
    },
  });
  return {
    ...running,
    as: async (username) => {
      const credentials = { username, password: 'secret', eauth: 'sharedsecret' };
      return running.master.asUser((await running.master.logins.login(credentials)).token);
    },
  };
}

const ping = { tgt: 'web1', fun: 'test.ping' };

test('who may publish everything reads everything, others what they began', async (t) => {
  const { master, as } = await start(t);
  const [admin, fred, ann] = [await as('admin'), await as('fred'), await as('ann')];
  const end = new AbortController();
  const readers = await Promise.all(
    [admin, fred, ann].map((user) => user.events.subscribe({}, end.signal)),
  );
  const { jid } = await ann.jobs.publish(ping);
  await master.events.fire('secret/thing', {});
  // What was told before is read before: each reader has a job of its own as its last.
  const lasts = [(await admin.jobs.publish(ping)).jid];
  lasts.push((await fred.jobs.publish(ping)).jid, (await ann.jobs.publish(ping)).jid);
  const read = await Promise.all(
    readers.map(async (events, index) => {
      const tags: string[] = [];
      for await (const { tag } of events) {
        tags.push(tag);
        if (tag === `salt/job/${lasts[index]}/publish`) break;
      }
      return tags;
    }),
  );
  t.true(read[0]?.includes('secret/thing'));
  t.true(read[0]?.includes(`salt/job/${jid}/new`));
  t.deepEqual(read[1], [`salt/job/${lasts[1]}/new`, `salt/job/${lasts[1]}/publish`]);
  t.deepEqual(
    read[2],
    [jid, lasts[2]].flatMap((own) => [`salt/job/${own}/new`, `salt/job/${own}/publish`]),
  );
  end.abort();
});

test('an event is fired by who may run event.send', async (t) => {
  const { as, eventsDuring } = await start(t);
  const [fred, ann] = [await as('fred'), await as('ann')];
  const events = await eventsDuring(async () => {
    await fred.events.fire('my/tag', { a: 1 });
    await t.throwsAsync(ann.events.fire('my/tag', {}), { instanceOf: AuthorizationError });
  });
  t.deepEqual(
    events.map(({ tag, data }) => [tag, data.a]),
    [['my/tag', 1]],
  );
});

test('events end with the token', async (t) => {
  const { master, as } = await start(t);
  const admin = await as('admin');
  const events = await admin.events.subscribe();
  await master.logins.revoke({ user: 'admin' });
  await master.events.fire('after', {});
  for await (const { tag } of events) t.fail(tag);
  await t.throwsAsync(admin.events.subscribe(), { instanceOf: AuthenticationError });
});
