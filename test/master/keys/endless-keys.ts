/** Pends and accepts keys without end in the PKI directory given, and tells what is accepted. */
import { openKeyStore } from '#master/auth/key-store.ts';
import { keyText, plainRules } from './rules.ts';

const store = await openKeyStore({
  directory: process.argv[2] ?? '',
  rules: plainRules,
  pendingKeys: 0,
});
for (let i = 0; ; i++) {
  await store.pend(`m${i}`, keyText(`m${i}`));
  if (i % 2 === 0) {
    await store.accept(`m${i}`);
    process.send?.(i);
  }
}
