/** Compiles the TypeScript in README.md and docs/ against the exports of the package. */

import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import test from 'ava';
import { emitDeclarations, modules, temporaryFolder } from '../scripts/declarations.ts';
import { documents } from './helpers/markdown.ts';
import { temporaryDirectory } from './helpers/temporary-directory.ts';

const root = fileURLToPath(new URL('../', import.meta.url));

/**
 * Declarations of the names that the text around the examples mentions. Each example is a module,
 * so these come first.
 */
const surroundings = `
import type { Master, MasterApi, SaltConfig } from 'saltbridge';
import type { Bridge } from 'saltbridge/bridge';
declare global {
  const bridge: Bridge;
  const config: SaltConfig;
  const master: Master;
  const password: string;
  const signal: AbortSignal;
  const source: string;
  const stacks: { of(id: string): Record<string, string> };
  const username: string;
  function readSensor(): number;
}
`;

/** Declarations that only rooms of the package can import, such as the caller in the audit log. */
const internals = `
import type { ExtensionHost, Master } from 'saltbridge';
declare const host: ExtensionHost;
declare const master: Master;
const by = { who: { kind: 'user', name: 'fred' }, rule: 'operators' } as const;
// @ts-expect-error: a call of the library is the program's own
master.keys.accept({ match: 'web1' }, by);
// @ts-expect-error: as above
master.jobs.publish({ tgt: '*', fun: 'test.ping', by });
// @ts-expect-error: as above
master.jobs.run({ tgt: '*', fun: 'test.ping', requestedBy: 'web1' });
// @ts-expect-error: as above
host.master().runners.run({ fun: 'jobs.active', by });
// @ts-expect-error: it answers with who asks
master.asUser('').requireFullRights('x');
export {};
`;

const compilerOptions = {
  module: 'nodenext',
  target: 'es2023',
  lib: ['es2023'],
  types: ['node'],
  strict: true,
  noEmit: true,
  skipLibCheck: true,
};

test('the examples of README.md and docs/ compile', (t) => {
  const directory = temporaryDirectory(t);
  symlinkSync(`${root}node_modules`, path.join(directory, 'node_modules'));
  const declarations = temporaryFolder();
  t.teardown(() => rmSync(declarations, { recursive: true }));
  emitDeclarations(declarations);
  const paths = modules.map(({ name }) => [
    name === 'saltbridge' ? name : `saltbridge/${name}`,
    [path.join(declarations, 'exports', `${name}.d.ts`)],
  ]);
  let count = 0;
  // docs/architecture/ shows code of this repository that the package does not export.
  for (const document of documents().filter((name) => !name.startsWith('docs/architecture/'))) {
    const text = readFileSync(`${root}${document}`, 'utf8');
    for (const [, example = ''] of text.matchAll(/^```ts\n(.*?)^```/gms)) {
      count += 1;
      const file = `${document.replaceAll('/', '-')}-${count}.ts`;
      writeFileSync(path.join(directory, file), `${example}\nexport {};\n`);
    }
  }
  t.true(count > 10, `${count} examples`);
  writeFileSync(path.join(directory, 'internals.ts'), internals);
  writeFileSync(path.join(directory, 'surroundings.d.ts'), surroundings);
  writeFileSync(path.join(directory, 'package.json'), '{"type": "module"}');
  writeFileSync(
    path.join(directory, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: { ...compilerOptions, paths: Object.fromEntries(paths) } }),
  );
  const compiler = `${root}node_modules/typescript/bin/tsc`;
  const { stdout } = spawnSync(process.execPath, [compiler, '-p', directory], { encoding: 'utf8' });
  t.is(stdout, '');
});
