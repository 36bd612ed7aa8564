import test from 'ava';
import { BundleKeys } from '#edge/bundles/bundle-keys.ts';
import { forgetKeyClaims, listKeyClaims, storeKeyClaims } from '#edge/bundles/key-claims.ts';
import { MinionClaims } from '#edge/facts/minion-claims.ts';
import type { LogEntryHandler, NewLogEntry, SiteLog } from '#edge/log/log.ts';
import type { ExtensionHost } from '#master';
import { keyFingerprint, type WireMap } from '#minion-protocol';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';
import { pem } from '../../helpers/vectors.ts';
import { writeFiles } from './release-stage.ts';
import { memoryRows } from './tuf-stage.ts';

const none = { entries: 0, bytes: 0, oldestAt: undefined, dropped: 0 };

// EDGE-C7 and EDGE-C8 of docs/consistency.md
test('a site reports a key that it accepts, and the bundle decides', async (t) => {
  const entries: NewLogEntry[] = [];
  const log: SiteLog = {
    append: async (entry) => {
      entries.push(entry);
    },
    appendTogether: async (given) => {
      entries.push(...given);
    },
    waiting: { alarm: none, signal: none, return: none, fact: none },
  };
  let opened: { host: ExtensionHost; keys: BundleKeys } | undefined;
  const { publicPem } = pem('minion');
  const { master } = await startVectorMaster(t, {
    keys: ['web1', 'web2', 'web3'].map((id) => ({ directory: 'minions_pre', id, publicPem })),
    extensions: [
      {
        name: 'bundle-keys',
        open: async (host) => {
          const keys = new BundleKeys(host);
          keys.reportClaims(log);
          opened = { host, keys };
          return {};
        },
      },
    ],
  });
  if (opened === undefined) throw new Error('the extension is not open');
  await master.keys.accept({ match: 'web1' });
  await new Promise((resolve) => setImmediate(resolve));
  t.deepEqual(
    entries.map(({ kind, value }) => [kind, value.id]),
    [['key-claim', 'web1']],
  );
  const bundle = temporaryDirectory(t);
  writeFiles(bundle, { 'keys/accepted/web2': publicPem, 'keys/revoked': '# left\nweb1\nweb3\n' });
  await opened.keys.apply(bundle);
  const states = async (): Promise<readonly string[]> =>
    (await master.keys.list()).map(({ id, state }) => `${id} ${state}`);
  t.deepEqual(await states(), ['web2 accepted']);
  t.is(entries.length, 1, 'a key of the bundle is no claim');
});

/** Centre that stores key claims in memory. */
async function stageOfClaims() {
  const rows = memoryRows({ now: 0 });
  // Only these members are used.
  const host = {
    admission: { keyOf: (id: string) => (id === 'own' ? {} : undefined) },
    find: () => undefined,
    shared: { ...rows, cluster: undefined, follow: async () => {} },
  } as unknown as Parameters<typeof MinionClaims.open>[0];
  let handler: LogEntryHandler | undefined;
  storeKeyClaims(
    {
      on: (_kind, it) => {
        handler = it;
      },
    },
    await MinionClaims.open(host),
  );
  const claim = async (site: string, value: WireMap) => {
    const entry = { class: 'signal', kind: 'key-claim', site, value, sequence: 1 } as const;
    const at = { ms: 5, count: 0 };
    await rows.write([
      ...((await handler?.operations?.({ ...entry, at, packed: Buffer.alloc(0) })) ?? []),
    ]);
  };
  return { rows, claim };
}

test('the centre stores only valid keys of minions that the site may own', async (t) => {
  const { rows, claim } = await stageOfClaims();
  const { publicPem: publicKey } = pem('minion');
  await claim('paris', { id: 'web1', publicKey });
  await claim('paris', { id: 'web1', publicKey });
  const code = { code: 'ERR_SITE_MESSAGE' };
  await t.throwsAsync(claim('paris', { id: '../x', publicKey }), code);
  await t.throwsAsync(claim('paris', { id: 'web2', publicKey: 'any text' }), code);
  await t.throwsAsync(claim('paris', { id: 'web2', publicKey, fingerprint: 'ab:cd' }), code);
  await t.throwsAsync(claim('rome', { id: 'web1', publicKey }), code);
  await t.throwsAsync(claim('rome', { id: 'own', publicKey }), code);
  t.deepEqual(
    (await listKeyClaims(rows)).map(({ site, id, at, fingerprint }) => [site, id, at, fingerprint]),
    [['paris', 'web1', 5, keyFingerprint(publicKey)]],
  );
});

test('many claims of one site do not hide those of another', async (t) => {
  const { rows, claim } = await stageOfClaims();
  const { publicPem: publicKey } = pem('minion');
  for (let count = 0; count < 1500; count += 1) await claim('evil', { id: `m${count}`, publicKey });
  await claim('paris', { id: 'web1', publicKey });
  const first = await listKeyClaims(rows);
  t.is(first.length, 1000);
  const last = first.at(-1);
  const second = await listKeyClaims(rows, last && { after: { site: last.site, id: last.id } });
  t.is(second.length, 501);
  t.is(second.at(-1)?.site, 'paris');
  t.is((await listKeyClaims(rows, { name: 'paris' })).length, 1);
  await forgetKeyClaims(rows, 'evil');
  t.is((await listKeyClaims(rows)).length, 1);
});
