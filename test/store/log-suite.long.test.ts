import { foundLog } from '#cluster/log/founding.ts';
import { openLogStore } from '#cluster/log/log-store.ts';
import { MemoryLog } from '../helpers/memory-log.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { storeSuite } from '../store-suite/suite.ts';

const secret = Buffer.alloc(32, 7);

storeSuite('log', async (t, now) => {
  const given = { log: new MemoryLog().connect(), secret, cluster: 'test', now };
  await foundLog(given);
  return openLogStore({ ...given, directory: temporaryDirectory(t), member: 'a' });
});
