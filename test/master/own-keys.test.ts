/** Each of the master's own keys has the passphrase of its own option. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { createMaster, resolveMasterConfig } from '../../master/index.ts';
import { createMemoryTransport, parsePrivateKey } from '../../minion-protocol/index.ts';
import { createMemoryStore } from '../../store/index.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { directories } from '../helpers/vector-master.ts';

test('key_pass is for master.pem, signing_key_pass for the key that signs it', async (t) => {
  const directory = temporaryDirectory(t);
  const master = createMaster({
    config: resolveMasterConfig({
      ...directories(directory),
      masterSignPubkey: true,
      keyPass: 'one',
      signingKeyPass: 'two',
    }),
    store: createMemoryStore(),
    transports: [createMemoryTransport().master],
  });
  t.teardown(() => master.close());
  await master.start();
  const read = (name: string): string =>
    readFileSync(path.join(directory, 'pki', `${name}.pem`), 'utf8');
  t.notThrows(() => parsePrivateKey(read('master'), 'one'));
  t.notThrows(() => parsePrivateKey(read('master_sign'), 'two'));
});
