import { readFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { MasterError } from '../../../master/api/errors.ts';
import { type MasterKeyOptions, openMasterKeys } from '../../../master/auth/master-keys.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

function optionsOf(t: ExecutionContext): MasterKeyOptions {
  return { pkiDir: path.join(temporaryDirectory(t), 'pki'), name: 'master', bits: 2048 };
}

test('a new key is encrypted with the passphrase, and opens with no other', async (t) => {
  const options = optionsOf(t);
  const made = await openMasterKeys({ ...options, passphrase: 'right' });
  const text = readFileSync(path.join(options.pkiDir, 'master.pem'), 'utf8');
  t.true(text.startsWith('-----BEGIN ENCRYPTED PRIVATE KEY-----'));
  const again = await openMasterKeys({ ...options, passphrase: 'right' });
  t.true(again.privateKey.equals(made.privateKey));
  const refused = { instanceOf: MasterError, code: 'ERR_OWN_KEY' };
  await t.throwsAsync(openMasterKeys({ ...options, passphrase: 'wrong' }), refused);
  await t.throwsAsync(openMasterKeys(options), refused);
});

test('a key that is not encrypted opens with a passphrase too', async (t) => {
  const options = optionsOf(t);
  const made = await openMasterKeys(options);
  const again = await openMasterKeys({ ...options, passphrase: 'needless' });
  t.true(again.privateKey.equals(made.privateKey));
});
