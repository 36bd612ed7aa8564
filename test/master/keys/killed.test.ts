import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import test from 'ava';
import { openKeyStore } from '../../../master/auth/key-store.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { keyText, plainRules } from './rules.ts';

const program = fileURLToPath(new URL('./endless-keys.js', import.meta.url));

test('a killed process leaves whole keys, and only those accepted that it accepted', async (t) => {
  const directory = temporaryDirectory(t);
  const child = fork(program, [directory], { stdio: 'ignore' });
  let last = -1;
  child.on('message', (accepted) => {
    last = Number(accepted);
    if (last === 40) child.kill('SIGKILL');
  });
  await once(child, 'close');
  writeFileSync(path.join(directory, '.saltbridge-left.tmp'), 'half');
  const store = await openKeyStore({ directory, rules: plainRules });
  t.teardown(() => store.close());
  const { accepted, pending } = store.list();
  for (const { id, pem } of [...accepted, ...pending]) t.is(pem, keyText(id));
  for (const { id } of accepted) t.is(Number(id.slice(1)) % 2, 0);
  for (let i = 0; i <= last; i += 2) t.is(store.get(`m${i}`)?.state, 'accepted');
  t.false(readdirSync(directory).some((name) => name.endsWith('.tmp')));
});
