/** Promises of docs/consistency.md that no other test checks, and the citations of all promises. */

import { readdirSync, readFileSync } from 'node:fs';
import test from 'ava';
import fc from 'fast-check';
import { CentreFacts } from '#edge/facts/centre-facts.ts';
import { MinionClaims } from '#edge/facts/minion-claims.ts';
import type { LinkState } from '#edge/link/link.ts';
import type { LogEntryHandler } from '#edge/log/log.ts';
import { CentreClock } from '#edge/orders/centre-clock.ts';
import type { MasterEvent } from '#master';
import { EmbeddedMinions } from '../../examples/embedded-minions.ts';
import { root } from '../helpers/markdown.ts';
import { memoryRows } from './bundles/tuf-stage.ts';
import { eventually, startCentre, startMaster } from './edge-stage.ts';
import { batchOf, entryOf, joinRaw, RawLink } from './raw-site.ts';
import { siteSection } from './sections.ts';

const idForm = /EDGE-C\d+/g;

test('each promise of docs/consistency.md is cited by a test, and each cited promise exists', (t) => {
  const page = readFileSync(`${root}docs/consistency.md`, 'utf8');
  const promised = new Set([...page.matchAll(/^\| (EDGE-C\d+) /gm)].map(([, id]) => id));
  const sources = readdirSync(`${root}test`, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => readFileSync(`${root}test/${name}`, 'utf8'));
  const cited = new Set(sources.flatMap((text) => text.match(idForm) ?? []));
  t.deepEqual([...cited].toSorted(), [...promised].toSorted());
  t.true(promised.size > 0);
});

test('EDGE-C1 and EDGE-C2: a site without its centre reads its own writes, and shows them in order', async (t) => {
  const site = siteSection({ name: 'north', centre: 'http://127.0.0.1:1' });
  const { server, directory } = await startMaster(t, { site, autoAccept: true });
  const { events, jobs } = server.master;
  const minions = new EmbeddedMinions();
  t.teardown(() => minions.close());
  const { requestPort } = await server.master.status();
  await (await minions.start({ directory, requestPort }, 'web1')).connected;
  const seen: MasterEvent[] = [];
  const ended = new AbortController();
  t.teardown(() => ended.abort());
  const stream = await events.subscribe({ match: 'app/*' }, ended.signal);
  void (async () => {
    for await (const event of stream) seen.push(event);
  })();
  let fired = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.constantFrom('job', 'event'), { maxLength: 10 }),
      async (steps) => {
        for (const step of steps) {
          if (step === 'event') {
            await events.fire('app/number', { number: fired });
            fired += 1;
            await eventually(() => seen.length === fired, 'the event');
          } else {
            const { jid } = await jobs.publish({ tgt: 'web1', fun: 'test.ping' });
            t.is((await jobs.show(jid)).jid, jid);
          }
        }
      },
    ),
    { numRuns: 10 },
  );
  t.deepEqual(
    seen.map(({ data }) => data.number),
    Array.from({ length: fired }, (_, number) => number),
  );
});

test('EDGE-C5: the latest facts win, whatever the order in which they arrive', async (t) => {
  const times = fc.uniqueArray(
    fc.record({ ms: fc.integer({ min: 0, max: 5 }), count: fc.integer({ min: 0, max: 3 }) }),
    { minLength: 1, maxLength: 12, selector: ({ ms, count }) => `${ms} ${count}` },
  );
  await fc.assert(
    fc.asyncProperty(times, fc.array(fc.boolean()), async (all, repeated) => {
      const rows = { ...memoryRows({ now: 0 }), follow: async () => {}, cluster: undefined };
      const host = {
        now: () => 0,
        shared: rows,
        admission: { keyOf: () => undefined },
        find: () => undefined,
      };
      let merge: LogEntryHandler['operations'];
      const facts = await CentreFacts.open({
        host,
        options: { factAheadSeconds: 300 },
        ingest: {
          on: (_kind, handler) => {
            merge = handler.operations;
          },
        },
        // Only `keyOf` and `find` are called.
        claims: await MinionClaims.open(host as unknown as Parameters<typeof MinionClaims.open>[0]),
      });
      const sent = [...all, ...all.filter((_, place) => repeated[place])];
      for (const at of sent) {
        const value = { minion: 'web1', present: true, grains: { at: `${at.ms} ${at.count}` } };
        const entry = { site: 'north', kind: 'minion', value, sequence: 1, at };
        await rows.write([
          ...((await merge?.({ ...entry, class: 'fact', packed: Buffer.alloc(0) })) ?? []),
        ]);
      }
      const [latest] = all.toSorted((a, b) => b.ms - a.ms || b.count - a.count);
      const found = await facts.of('web1');
      t.deepEqual(found?.at, latest);
      t.is(found?.grains.at, `${latest?.ms} ${latest?.count}`);
    }),
    { numRuns: 50 },
  );
});

test('EDGE-C9: no entry of a site changes the keys, the policy or the pillar of the centre', async (t) => {
  const centre = await startCentre(t);
  const link = await RawLink.signIn(t, centre, await joinRaw(t, centre, 'north'));
  t.true(await link.isWelcome());
  const { master } = centre.server;
  const state = async (): Promise<unknown> => [
    await master.keys.list(),
    await master.pillar.show({ minion: 'web1' }),
    await master.acl.explain({
      subject: { kind: 'user', name: 'fred', groups: [] },
      action: 'runner',
      resource: 'manage.up',
    }),
  ];
  const before = await state();
  const value = { id: 'web1', minion: 'web1', publicKey: 'key', pillar: { a: 1 }, rules: [] };
  const kinds = ['key', 'key-claim', 'pillar', 'policy', 'acl', 'secret', 'config', 'release'];
  const entries = kinds.map((kind, place) => entryOf(place + 1, kind, value));
  const reply = await link.ask('log.signal', batchOf(entries));
  t.like(reply, { kind: 'reply', value: { sequence: kinds.length } });
  t.deepEqual(await state(), before);
});

const dayMs = 86_400_000;

test('EDGE-C11 and EDGE-C12: the authority ends with valid_offline, with any clock and any restarts', async (t) => {
  const validOfflineSeconds = 600;
  const step = fc.oneof(
    fc.record({ kind: fc.constant('wait'), ms: fc.integer({ min: 0, max: 700_000 }) }),
    fc.record({ kind: fc.constantFrom('connect', 'cut', 'restart'), ms: fc.constant(0) }),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(-dayMs, 0, dayMs),
      fc.array(step, { maxLength: 30 }),
      async (offsetMs, steps) => {
        let centreNow = 10 * dayMs;
        const siteNow = (): number => centreNow + offsetMs;
        const state = memoryRows({ now: 0 });
        let link: LinkState = {
          isConnected: false,
          lastContactAt: undefined,
          clockDifferenceMs: undefined,
        };
        const context = {
          host: { now: siteNow, state },
          link: {
            get state(): LinkState {
              return link.isConnected ? { ...link, lastContactAt: siteNow() } : link;
            },
          },
          validOfflineSeconds: () => validOfflineSeconds,
          timeFloor: () => 0,
        };
        let clock = await CentreClock.open(context);
        let lastContact: number | undefined;
        for (const { kind, ms } of steps) {
          if (kind === 'wait') centreNow += ms;
          if (kind === 'connect') {
            const clockDifferenceMs = -offsetMs;
            link = { isConnected: true, lastContactAt: siteNow(), clockDifferenceMs };
          }
          if (link.isConnected) lastContact = centreNow;
          await clock.save();
          if (kind === 'cut') link = { ...context.link.state, isConnected: false };
          if (kind === 'restart') {
            link = { isConnected: false, lastContactAt: undefined, clockDifferenceMs: undefined };
            clock = await CentreClock.open(context);
          }
          const awayMs = lastContact === undefined ? Infinity : centreNow - lastContact;
          if (clock.isValid) t.true(awayMs < validOfflineSeconds * 1000);
          // The last contact is stored once a minute.
          else t.true(awayMs >= validOfflineSeconds * 1000 - 60_000);
          if (lastContact !== undefined) t.is(clock.now, centreNow);
        }
      },
    ),
  );
});
