/** Tokens of users and a restored store. */

import path from 'node:path';
import test from 'ava';
import { resolveMasterConfig, storeDirectory } from '#config';
import { backupOfflineStore, restoreMasterStore } from '#master';
import { tokensPrefix } from '#master/users/index.ts';
import { openEmbeddedStore } from '#store';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { directories } from '../../helpers/vector-master.ts';

test('a restored store has no tokens, because they may have been revoked since', async (t) => {
  const directory = temporaryDirectory(t);
  const config = resolveMasterConfig(directories(directory));
  const place = { directory: storeDirectory(config.stateDir) };
  const before = await openEmbeddedStore(place);
  const key = [...tokensPrefix, 'digest'];
  await before.write([
    { op: 'put', key, value: Buffer.from('token') },
    { op: 'put', key: ['other'], value: Buffer.from('row') },
  ]);
  await before.close();
  const { file } = await backupOfflineStore(config, path.join(directory, 'backup'));
  await restoreMasterStore(config, file);
  const after = await openEmbeddedStore(place);
  t.teardown(() => after.close());
  t.is(await after.get(key), undefined);
  t.not(await after.get(['other']), undefined);
});
