import path from 'node:path';
import test from 'ava';
import { storeDirectory } from '../../../master/config/options.ts';
import {
  backupOfflineStore,
  resolveMasterConfig,
  restoreMasterStore,
} from '../../../master/index.ts';
import { openRunsPrefix, ReactionQueue } from '../../../master/reactor/reaction-queue.ts';
import { openEmbeddedStore } from '../../../store/index.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { directories } from '../../helpers/vector-master.ts';

const run = {
  jid: '20240102030405123456',
  reaction: 'puppet',
  tag: 'a/b',
  depth: 0,
  queuedAt: 0,
  call: { kind: 'runner', fun: 'manage.present', arg: [], kwarg: {} },
  isSent: false,
} as const;

test('a backup that is put back does nothing that waited when it was made', async (t) => {
  const directory = temporaryDirectory(t);
  const config = resolveMasterConfig(directories(directory));
  const place = { directory: storeDirectory(config.stateDir) };
  const before = await openEmbeddedStore(place);
  const queue = await ReactionQueue.open({
    store: before,
    keepMs: 1,
    keepMarksMs: 1,
    now: Date.now,
  });
  await queue.add(run, { mark: undefined, window: undefined });
  await before.close();
  const { file } = await backupOfflineStore(config, path.join(directory, 'backup'));
  await restoreMasterStore(config, file);
  const after = await openEmbeddedStore(place);
  t.teardown(() => after.close());
  const left: unknown[] = [];
  for await (const entry of after.list(openRunsPrefix)) left.push(entry.key);
  t.deepEqual(left, []);
});
