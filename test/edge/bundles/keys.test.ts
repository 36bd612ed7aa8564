import test from 'ava';
import { BundleKeys } from '#edge/bundles/bundle-keys.ts';
import { listKeyClaims, storeKeyClaims } from '#edge/bundles/key-claims.ts';
import type { LogEntryHandler, NewLogEntry, SiteLog } from '#edge/log/log.ts';
import type { ExtensionHost } from '#master';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';
import { pem } from '../../helpers/vectors.ts';
import { writeFiles } from './release-stage.ts';
import { memoryRows } from './tuf-stage.ts';

const none = { entries: 0, bytes: 0, oldestAt: undefined, dropped: 0 };

// EDGE-C7 and EDGE-C8 of docs/consistency.md
test('a key that a site accepts is a claim at the centre, and the bundle decides', async (t) => {
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
  const rows = memoryRows({ now: 0 });
  let handler: LogEntryHandler | undefined;
  storeKeyClaims({
    on: (_kind, it) => {
      handler = it;
    },
  });
  const [entry] = entries;
  if (entry === undefined) throw new Error('no entry');
  const received = { ...entry, site: 'paris', sequence: 1, at: { ms: 5, count: 0 }, bytes: 1 };
  const operations = [...((await handler?.operations?.(received)) ?? [])];
  await rows.write([...operations, ...operations]);
  const claims = await listKeyClaims(rows);
  t.deepEqual(
    claims.map(({ site, id, at }) => [site, id, at]),
    [['paris', 'web1', 5]],
  );
  const malformed = { ...received, value: { ...entry.value, id: '../x' } };
  t.throws(() => handler?.operations?.(malformed), { code: 'ERR_SITE_MESSAGE' });
});
