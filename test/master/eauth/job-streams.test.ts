/** Streams of jobs: their number for each user, and the turns of users at publishing. */

import test, { type ExecutionContext } from 'ava';
import pino from 'pino';
import type { UserApi } from '#master';
import { LimitExceeded } from '#runtime';
import { createMemoryStore } from '#store';
import { otherKey } from '../../helpers/connected-minion.ts';
import {
  startVectorMaster,
  type VectorMaster,
  type VectorMasterOptions,
} from '../../helpers/vector-master.ts';

interface Running extends VectorMaster {
  /** Returns the interface of a user, after a log-in. */
  logIn(username: string): Promise<UserApi>;
}

async function start(
  t: ExecutionContext,
  rights: Readonly<Record<string, string[]>>,
  options: VectorMasterOptions = {},
): Promise<Running> {
  const running = await startVectorMaster(t, {
    keys: [otherKey('m1')],
    config: { externalAuth: { sharedsecret: rights }, eauth: { sharedsecret: 'secret' } },
    usesSystemClock: true,
    ...options,
  });
  const { master } = running;
  const logIn = async (username: string): Promise<UserApi> => {
    const credentials = { username, password: 'secret', eauth: 'sharedsecret' };
    return master.asUser((await master.logins.login(credentials)).token);
  };
  return { ...running, logIn };
}

/** Opens the stream of a job without minions. It stays open until its next update is read. */
async function openStream(user: UserApi): Promise<AsyncIterator<unknown>> {
  const stream = user.jobs.run({ tgt: 'none', fun: 'test.ping' })[Symbol.asyncIterator]();
  await stream.next();
  return stream;
}

function firstOf(stream: AsyncIterable<unknown>): Promise<unknown> {
  return stream[Symbol.asyncIterator]().next();
}

test('a user may have 256 open streams of jobs, and other users have their own', async (t) => {
  const running = await start(t, { fred: ['.*'], jane: ['.*'] });
  const [fred, jane] = [await running.logIn('fred'), await running.logIn('jane')];
  const full = { instanceOf: LimitExceeded, message: /^users\.jobStreams: .* \(maximum 256\)/ };
  const streams = await Promise.all(Array.from({ length: 256 }, () => openStream(fred)));
  await t.throwsAsync(openStream(fred), full);
  await t.throwsAsync(openStream(await running.logIn('fred')), full);
  await t.throwsAsync(firstOf(fred.jobs.batch({ tgt: 'x', fun: 'test.ping', size: 1 })), full);
  await t.throwsAsync(firstOf(fred.jobs.follow('20231114221320000000')), full);
  await openStream(jane);
  await streams[0]?.return?.();
  await t.notThrowsAsync(openStream(fred));
});

test('jobs of a user with many streams do not delay the job of another user', async (t) => {
  const count = 100;
  let permitted = 0;
  let whenPermitted = (): void => {};
  const logger = pino(
    {},
    {
      write: (line: string) => {
        if (line.includes('permitted a request of a user')) permitted += 1;
        whenPermitted();
      },
    },
  );
  const permittedAre = (wanted: number): Promise<void> =>
    new Promise((resolve) => {
      whenPermitted = () => permitted >= wanted && resolve();
      whenPermitted();
    });
  const store = createMemoryStore();
  const running = await start(t, { eve: ['test.*'], fred: ['test.*'] }, { logger, store });
  const [eve, fred] = [await running.logIn('eve'), await running.logIn('fred')];
  // The master publishes nothing until it has reserved serial numbers in the store.
  const write = store.write.bind(store);
  const gate = Promise.withResolvers<void>();
  store.write = async (operations) => {
    if (operations.some((it) => 'key' in it && it.key[1] === 'publish-key')) await gate.promise;
    return write(operations);
  };
  const events = await running.master.events.subscribe({ match: 'salt/job/*/new' });
  const end = new AbortController();
  const job = { tgt: 'm1', fun: 'test.ping' };
  const runs = Array.from({ length: count }, async () => {
    for await (const _update of eve.jobs.run(job, end.signal));
  });
  await permittedAre(count);
  const published = fred.jobs.publish(job);
  await permittedAre(count + 1);
  gate.resolve();
  const { jid } = await published;
  let place = 0;
  for await (const { tag } of events) {
    place += 1;
    if (tag === `salt/job/${jid}/new`) break;
  }
  end.abort();
  await Promise.all(runs);
  t.true(place <= count / 2, `it was published after ${place - 1} jobs`);
});
