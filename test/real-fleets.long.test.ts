/** The default limits leave space for real fleets. */
import test from 'ava';
import { allow } from '#acl';
import {
  createMinion,
  generateKeyString,
  isWireMap,
  parsePrivateKey,
  unpackWire,
  wireBytes,
} from '#minion-protocol';
import { createMinionHandshake } from '#minion-protocol/minion-handshake.ts';
import { startStandInHeat } from './heat-bridge/deployments/stand-in-heat.ts';
import { echo, startBridge } from './heat-bridge/stage.ts';
import { until } from './helpers/deadline.ts';
import { type StoredKey, startVectorMaster } from './helpers/vector-master.ts';
import { pem } from './helpers/vectors.ts';

const { privatePem, publicPem } = pem('other_minion');

test.serial(
  '15,000 minions that sign in at once are all accepted, some after a retry',
  async (t) => {
    t.timeout(900_000);
    const count = 15_000;
    const behindOneAddress = 5_000;
    const minions = Array.from({ length: count }, (_, n) => ({
      id: `m${n}`,
      address: n < behindOneAddress ? '192.0.2.1' : `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`,
    }));
    const keys = minions.map(({ id }): StoredKey => ({ directory: 'minions', id, publicPem }));
    const { dial, counters } = await startVectorMaster(t, { startAt: Date.now(), keys });
    const privateKey = parsePrivateKey(privatePem);
    const token = generateKeyString();
    const signIn = async ({ id, address }: (typeof minions)[number]): Promise<boolean> => {
      const handshake = createMinionHandshake({ id, version: 3, privateKey, publicPem, token });
      const reply = unpackWire(await dial(id, address).request(handshake.request(), 120_000));
      if (isWireMap(reply)) {
        const load = unpackWire(wireBytes(reply.load) ?? Buffer.of());
        return isWireMap(load) && 'aes' in load;
      }
      // A minion that gets this reply signs in again after `acceptance_wait_time`, for ever.
      t.is(reply, 'bad load');
      return false;
    };
    let waiting = minions;
    const rounds: number[] = [];
    while (waiting.length > 0 && rounds.length < 5) {
      const accepted = await Promise.all(waiting.map(signIn));
      waiting = waiting.filter((_, index) => accepted[index] === false);
      rounds.push(waiting.length);
    }
    t.log(`rejected after each round: ${rounds.join(', ')}`);
    t.is(waiting.length, 0);
    t.true(((await counters()).ERR_RSA_OVERLOAD ?? 0) > 0, 'the queue was full');
  },
);

test.serial(
  'a job with highstate returns of 5 MB from 16 minions returns all of them',
  async (t) => {
    t.timeout(300_000);
    const ids = Array.from({ length: 16 }, (_, n) => `web${n}`);
    const { master, dial } = await startVectorMaster(t, {
      startAt: Date.now(),
      keys: ids.map((id): StoredKey => ({ directory: 'minions', id, publicPem })),
    });
    const state = { result: true, comment: 'x'.repeat(1_000), changes: {}, name: 'a' };
    const highstate = Object.fromEntries(
      Array.from({ length: 4_800 }, (_, n) => [`file_|-a${n}_|-a${n}_|-managed`, { ...state }]),
    );
    for (const id of ids) {
      const minion = createMinion({
        id,
        transport: dial(id),
        keys: { privatePem, publicPem, masterPem: undefined, trustMaster: async () => {} },
        functions: { 'state.highstate': () => highstate },
      });
      t.teardown(() => minion.stop());
      await minion.start();
    }
    let jid = '';
    const returned = new Set<string>();
    const request = { tgt: '*', fun: 'state.highstate', timeoutSeconds: 200 };
    for await (const update of master.jobs.run(request)) {
      if (update.type === 'published') jid = update.jid;
      if (update.type !== 'return') continue;
      t.true(JSON.stringify(update.return).length > 5_000_000);
      returned.add(update.minion);
    }
    t.is(returned.size, ids.length);
    const shown = await master.jobs.show(jid);
    t.is(shown?.returns.length, ids.length);
    t.true(shown?.returns.every((it) => JSON.stringify(it.return).length > 5_000_000));
  },
);

test.serial('the deployments of a stack of 1,000 servers all run and signal Heat', async (t) => {
  t.timeout(600_000);
  const heat = await startStandInHeat(t);
  const { bridge } = await startBridge(t, {
    commands: [{ ...echo, reviewed: 'made for this test alone' }],
    rules: [
      allow('deployments', {
        subject: { service: 'deployments' },
        action: 'command',
        resource: { fun: 'demo.*', within: 'web*' },
      }),
    ],
    functions: { 'test.echo': ({ kwargs: { text } }) => text ?? null },
    config: { bridge: { handles: { endpoints: [heat.origin] }, deployments: {} } },
  });
  const names = Array.from({ length: 1_000 }, (_, n) => `server-${n}`);
  for (const name of names) heat.servers.set(name, [heat.entry(`of-${name}`, {}, { text: name })]);
  await bridge.stacks.add({
    name: 'large',
    servers: names.map((server, n) => ({ server, minion: `web${1 + (n % 2)}` })),
    login: { auth_url: `${heat.origin}/v3`, user_id: 'u', password: 'secret', project_id: 'p' },
  });
  await until('1,000 results', () => heat.results.length >= names.length, 500_000);
  const texts = new Set(heat.results.map(({ values }) => values.result));
  t.is(texts.size, names.length);
});
