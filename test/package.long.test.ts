/** The bundled package differs from its sources in the names of functions and in what it loads. */

import { execFileSync } from 'node:child_process';
import test, { type ExecutionContext } from 'ava';
import { installPacked } from './helpers/packed-project.ts';
import { temporaryDirectory } from './helpers/temporary-directory.ts';

/** Runs a program in a project that has installed the package. Returns its output. */
function outputOf(t: ExecutionContext, program: string): string {
  t.timeout(240_000);
  const cwd = temporaryDirectory(t);
  installPacked(cwd, { withTypeScript: false });
  const arguments_ = ['--input-type=module', '--eval', program];
  return execFileSync(process.execPath, arguments_, { cwd, encoding: 'utf8' }).trim();
}

test('errors of the package have the names of their classes', (t) => {
  const program = `import { ConfigError, MasterError } from 'saltbridge';
    console.log(ConfigError.name, MasterError.name);`;
  t.is(outputOf(t, program), 'ConfigError MasterError');
});

test('the client of the package loads HTTP without the WebSocket client of Node.js', (t) => {
  const program = `import 'saltbridge/client';
    const loaded = ['NativeModule http', 'NativeModule internal/deps/undici/undici'];
    console.log(loaded.map((it) => process.moduleLoadList.includes(it)).join());`;
  t.is(outputOf(t, program), 'true,false');
});
