// TypeBox comes as some 700 files, and opening them is half of the time in which a command starts:
// `#typebox` of package.json is the same in a few.
import { copyFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

await build({
  absWorkingDir: root,
  entryPoints: {
    index: 'typebox',
    compile: 'typebox/compile',
    schema: 'typebox/schema',
    value: 'typebox/value',
  },
  outdir: 'dist/typebox',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  logLevel: 'warning',
});
copyFileSync(
  path.join(root, 'node_modules', 'typebox', 'license'),
  path.join(root, 'dist', 'typebox', 'LICENSE'),
);
