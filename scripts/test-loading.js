// Makes the processes of test files start faster. Bundles the dependencies that consist of many small
// files: each process would otherwise open 600 files of TypeBox and yaml. Resolves imports of sources
// by their text. Replaces node:http (see node-http.js).
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';
import { replacedModule, replacementSource } from './node-http.js';

const root = fileURLToPath(new URL('..', import.meta.url));
/** File of each module, relative to node_modules. All of them are ECMAScript modules. */
const entries = {
  typebox: 'typebox/build/index.mjs',
  'typebox/error': 'typebox/build/error/index.mjs',
  'typebox/schema': 'typebox/build/schema/index.mjs',
  yaml: 'yaml/browser/dist/index.js',
};

/**
 * Source of a module that makes the product's imports use the bundles beside it. It also resolves
 * the imports of sources by their text: `./`, `../`, `#room` and `#room/file.ts`. Node.js would look
 * for each of these 1,300 files and for its package, which is a third of the time to load them. The
 * root of the sources is known from the first import of a room.
 */
const hooks = `import { registerHooks } from 'node:module';
const names = ${JSON.stringify(Object.keys(entries))};
const urls = new Map(names.map((name) => [name, new URL('./' + name + '.mjs', import.meta.url).href]));
urls.set('${replacedModule}', new URL('./http.mjs', import.meta.url).href);
let root;
function sourceOf(specifier, parent) {
  if (specifier.startsWith('.')) return specifier.endsWith('.ts') ? new URL(specifier, parent).href : undefined;
  if (root === undefined || !parent.startsWith(root)) return undefined;
  const path = specifier.slice(1);
  return root + (path.includes('/') ? path : path + '/index.ts');
}
registerHooks({
  resolve(specifier, context, nextResolve) {
    const parent = context.parentURL;
    if (parent === undefined || parent.includes('/node_modules/')) return nextResolve(specifier, context);
    const url = urls.get(specifier);
    if (url !== undefined) return { url, format: 'module', shortCircuit: true };
    const isRoom = specifier.startsWith('#');
    if (!isRoom && !specifier.startsWith('.')) return nextResolve(specifier, context);
    const source = sourceOf(specifier, parent);
    if (source !== undefined) return { url: source, format: 'module-typescript', shortCircuit: true };
    const resolved = nextResolve(specifier, context);
    if (isRoom) root ??= resolved.url.slice(0, resolved.url.lastIndexOf(specifier.slice(1)));
    return resolved;
  },
});
`;

/**
 * Bundles the dependencies and writes the module above, unless both exist for these versions.
 * Returns the file to preload with the option `--import` of Node.js.
 */
export function prepareLoading() {
  const hash = createHash('sha256').update(readFileSync(fileURLToPath(import.meta.url)));
  hash.update(replacementSource());
  for (const name of Object.keys(entries)) {
    const description = path.join(root, 'node_modules', name, 'package.json');
    if (existsSync(description)) hash.update(readFileSync(description));
  }
  const cache = path.join(root, 'node_modules', '.cache');
  const directory = path.join(cache, `dependencies-${hash.digest('hex').slice(0, 16)}`);
  const preload = path.join(directory, 'hooks.mjs');
  if (existsSync(preload)) return preload;
  mkdirSync(cache, { recursive: true });
  const place = mkdtempSync(path.join(cache, 'dependencies-'));
  buildSync({
    entryPoints: Object.entries(entries).map(([name, file]) => ({
      in: path.join(root, 'node_modules', file),
      out: name,
    })),
    outdir: place,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    logLevel: 'warning',
  });
  writeFileSync(path.join(place, 'hooks.mjs'), hooks);
  writeFileSync(path.join(place, 'http.mjs'), replacementSource());
  try {
    renameSync(place, directory);
  } catch (error) {
    // Another process has been faster.
    rmSync(place, { recursive: true });
    if (!existsSync(preload)) throw error;
  }
  return preload;
}
