import type { KeyObject } from 'node:crypto';
import path from 'node:path';
import { cleanKeyText, rsaVerify, type SigningAlgorithm } from '../../minion-protocol/index.ts';
import type { MasterConfig } from '../config/options.ts';
import { MasterError } from '../errors.ts';
import { readPublicKey } from './master-keys.ts';
import { readTextIfPresent } from './private-file.ts';

/** Where the signature and what can check it are. */
export type MasterSignatureOptions = Pick<
  MasterConfig,
  'pkiDir' | 'masterPubkeySignature' | 'masterSignKeyName'
>;

const algorithms: readonly SigningAlgorithm[] = ['PKCS1v15-SHA1', 'PKCS1v15-SHA224'];

/**
 * The signature of the master's public key that was made beforehand, as it is sent to minions:
 * base64 and a line feed. With it the key that signs need not be on the master
 * (`master_use_pubkey_signature`) [WIRE 6.6]. It is checked here, because with one that does not
 * fit every minion that verifies would turn away: where `<master_sign_key_name>.pub` is there.
 * @throws MasterError ERR_OWN_KEY
 */
export async function readMasterSignature(
  { pkiDir, masterPubkeySignature, masterSignKeyName }: MasterSignatureOptions,
  masterPublicPem: string,
): Promise<string> {
  const file = path.resolve(pkiDir, masterPubkeySignature);
  const text = await readTextIfPresent(file);
  if (text === undefined) {
    throw new MasterError('ERR_OWN_KEY', `${file} is missing; salt-key --gen-signature makes it`);
  }
  const signature = Buffer.from(text, 'base64');
  const publicFile = path.join(pkiDir, `${masterSignKeyName}.pub`);
  const publicPem = await readTextIfPresent(publicFile);
  const signKey = publicPem === undefined ? undefined : readPublicKey(publicFile, publicPem);
  if (signKey !== undefined && !isSignedBy(signKey, masterPublicPem, signature)) {
    throw new MasterError(
      'ERR_OWN_KEY',
      `${file} does not sign master.pub as minions get it, by the key of ${publicFile}; ` +
        'remove it, and make it again with saltbridge salt-key --gen-signature',
    );
  }
  return `${signature.toString('base64')}\n`;
}

/** Minions get the text without its last line feed; Salt's own salt-key signs that as well. */
function isSignedBy(key: KeyObject, masterPublicPem: string, signature: Buffer): boolean {
  const text = Buffer.from(cleanKeyText(masterPublicPem));
  return algorithms.some((algorithm) => rsaVerify(key, text, signature, algorithm));
}
