/**
 * A program that adds and accepts keys in the given PKI directory until it is killed, and prints
 * which keys are accepted.
 */
import { KeyStore } from '#master/auth/key-store.ts';
import { openPkiFiles } from '#master/auth/pki-directory.ts';
import { keyText } from './key-text.ts';

const store = await KeyStore.open(await openPkiFiles(process.argv[2] ?? ''), { pendingKeys: 0 });
for (let i = 0; ; i++) {
  await store.pend(`m${i}`, keyText(`m${i}`));
  if (i % 2 === 0) {
    await store.accept(`m${i}`);
    process.send?.(i);
  }
}
