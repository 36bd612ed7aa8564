/** The bundled package differs from its sources in the names of functions and in what it loads. */

import { execFileSync } from 'node:child_process';
import test from 'ava';
import { installPacked } from './helpers/packed-project.ts';
import { temporaryDirectory } from './helpers/temporary-directory.ts';

test('the package keeps the names of errors, and loads HTTP without a WebSocket client', (t) => {
  t.timeout(240_000);
  const cwd = temporaryDirectory(t);
  installPacked(cwd, { withTypeScript: false });
  const outputOf = (program: string): string => {
    const arguments_ = ['--input-type=module', '--eval', program];
    return execFileSync(process.execPath, arguments_, { cwd, encoding: 'utf8' }).trim();
  };
  const errors = `import { ConfigError, MasterError } from 'saltbridge';
    console.log(ConfigError.name, MasterError.name);`;
  t.is(outputOf(errors), 'ConfigError MasterError');
  const client = `import 'saltbridge/client';
    const loaded = ['NativeModule http', 'NativeModule internal/deps/undici/undici'];
    console.log(loaded.map((it) => process.moduleLoadList.includes(it)).join());`;
  t.is(outputOf(client), 'true,false');
});
