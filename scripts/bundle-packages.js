// TypeBox comes as some 700 files and yaml as 80, and opening them is half of the time in which a
// command starts: `#typebox` and `#yaml` of package.json are the same in a few.
import { copyFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

const common = {
  absWorkingDir: root,
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  logLevel: 'warning',
};

await build({
  ...common,
  entryPoints: {
    index: 'typebox',
    compile: 'typebox/compile',
    schema: 'typebox/schema',
    value: 'typebox/value',
  },
  outdir: 'dist/typebox',
  splitting: true,
});

// It is CommonJS, whose names have to be told and whose `require` has to be there.
const names = Object.keys(createRequire(import.meta.url)('yaml'));
await build({
  ...common,
  stdin: { contents: `export { ${names.join(', ')} } from 'yaml';`, resolveDir: root },
  outfile: 'dist/yaml/index.js',
  banner: {
    js: "import { createRequire } from 'node:module';\nconst require = createRequire(import.meta.url);",
  },
});

for (const [name, license] of [
  ['typebox', 'license'],
  ['yaml', 'LICENSE'],
]) {
  copyFileSync(
    path.join(root, 'node_modules', name, license),
    path.join(root, 'dist', name, 'LICENSE'),
  );
}
