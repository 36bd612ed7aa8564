// Bundles the sources of the package into dist/: `node scripts/build.js [--js | --bench]`. The
// folder is flat. It contains main.js (the command line), a file for each entry of the package, a
// file for each program that runs in a worker thread or child process, and chunks that they share.
// dist/types contains the declarations; --js omits them. --bench adds bench-main.js and the
// programs of bench/, so that benchmarks measure the published code.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { build } from 'esbuild';
import {
  bundleDeclarations,
  emitDeclarations,
  modules,
  root,
  temporaryFolder,
} from './declarations.ts';
import { replacedModule, replacementSource } from './node-http.js';

/** Dependencies to bundle. They consist of many small files, and opening these is slow. */
export const bundledPackages = ['typebox', 'yaml'];
const description = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
const rooms = new Set(
  Object.values(description.imports).map((target) => target.split('/')[1] ?? ''),
);

/** Matches the relative path of a file in `new URL(…)`, relative to the module. */
const fileLiteral = /new URL\(\s*'([^':]+)',\s*import\.meta\.url\)/g;

/** Returns the source files of folders, relative to the root. */
function sourceFiles(folders) {
  return folders.flatMap((room) =>
    readdirSync(path.join(root, room), { recursive: true })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => path.join(room, name)),
  );
}

/** Returns the modules that run as programs of their own. Other modules refer to them by a URL. */
function programs(folders) {
  return sourceFiles(folders).flatMap((file) =>
    [...readFileSync(path.join(root, file), 'utf8').matchAll(fileLiteral)]
      .map(([, name]) => path.join(path.dirname(file), name))
      .filter((name) => name.endsWith('.ts')),
  );
}

/** Returns the name in dist/ of the file that is built from a source file. */
function outputName(file) {
  const name = file.startsWith('bench/') ? file.replaceAll('/', '-') : path.basename(file);
  return path.basename(name, '.ts');
}

/** Rewrites the URLs of files, so that they are valid for a module in dist/. */
function placeFiles(text, file) {
  return text.replaceAll(fileLiteral, (_, name) => {
    const target = path.join(path.dirname(path.relative(root, file)), name);
    const place = target.endsWith('.ts')
      ? `./${outputName(target)}.js`
      : `../${target}${name.endsWith('/') && !target.endsWith('/') ? '/' : ''}`;
    return `new URL('${place}', import.meta.url)`;
  });
}

const faces = new Map();
/**
 * Returns the names that an index.ts exports again, each with its file and its name in that file.
 */
function faceOf(index) {
  const known = faces.get(index);
  if (known !== undefined) return known;
  const names = new Map();
  faces.set(index, names);
  const text = readFileSync(index, 'utf8');
  for (const [, list, from] of text.matchAll(/^export (?:type )?\{([^}]*)\} from '([^']+)';/gm)) {
    for (const [original, name] of bindings(list)) {
      names.set(name, declaredBy(fileOf(from, index), original));
    }
  }
  return names;
}

/** Returns the file that declares a name, found through all index.ts that export it again. */
function declaredBy(file, original) {
  const passedOn = path.basename(file) === 'index.ts' ? faceOf(file).get(original) : undefined;
  return passedOn ?? { file, original };
}

/**
 * Returns the file that an import of this package refers to: `#room`, `#room/file.ts` or
 * `./file.ts`.
 */
function fileOf(from, importer) {
  if (!from.startsWith('#')) return path.resolve(path.dirname(importer), from);
  const [room, ...below] = from.slice(1).split('/');
  return path.join(root, room, ...(below.length === 0 ? ['index.ts'] : below));
}

/**
 * Returns the bindings of an import or export list: the name before `as`, and the name after it.
 */
function bindings(list) {
  return list
    .replaceAll(/\/\*.*?\*\//gs, '')
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '' && !entry.startsWith('type '))
    .map((entry) => {
      const [original = '', name = original] = entry.split(' as ');
      return [original, name];
    });
}

/**
 * Changes imports so that each name is imported from the file that declares it instead of an
 * index.ts. An entry of the package, or a command, then loads only the files that it uses.
 */
function passFaces(text, importer) {
  return text.replaceAll(
    /^(import|export) \{([^}]*)\} from '(#[\w-]+|[#.][^']*\/index\.ts)';/gm,
    (whole, keyword, list, from) => {
      if (!from.startsWith('.') && !rooms.has(/[\w-]+/.exec(from)?.[0])) return whole;
      return bindings(list)
        .map(([given, name]) => {
          const { file, original } = declaredBy(fileOf(from, importer), given);
          return `${keyword} { ${original} as ${name} } from '${file}';`;
        })
        .join('\n');
    },
  );
}

/**
 * Makes classes of errors keep their names, which esbuild changes if a class refers to itself. Its
 * option `keepNames` would define the name of each function whenever the function is created, also
 * several times for each event of a minion.
 */
function nameErrors(text) {
  return text.replaceAll(
    /^(?:export )?(?:abstract )?class (\w+)(?:<[^{]*>)? extends \w*(?:Error|Exception|Interruption)\b[^{]*\{/gm,
    (head, name) => `${head} static { Object.defineProperty(this, 'name', { value: '${name}' }); }`,
  );
}

const httpPlugin = {
  name: 'http',
  setup({ onLoad, onResolve }) {
    const namespace = 'http';
    onResolve({ filter: new RegExp(`^${replacedModule}$`) }, () => ({
      path: replacedModule,
      namespace,
      sideEffects: false,
    }));
    onLoad({ filter: /^/, namespace }, () => ({ contents: replacementSource(), loader: 'js' }));
  },
};

const filesPlugin = {
  name: 'files',
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, ({ path: file }) => {
      if (file.includes('/node_modules/')) return undefined;
      const text = passFaces(readFileSync(file, 'utf8'), file);
      return { contents: nameErrors(placeFiles(text, file)), loader: 'ts' };
    });
  },
};

async function bundle(output, withBench) {
  const folders = [...rooms, 'exports', ...(withBench ? ['bench'] : [])];
  const entries = modules.map(({ file }) => path.relative(root, file));
  const benches = withBench ? ['bench/main.ts'] : [];
  const { dependencies, optionalDependencies, peerDependencies } = description;
  const packages = Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies });
  const external = packages.filter((name) => !bundledPackages.includes(name));
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: [...new Set(['cli/main.ts', ...entries, ...benches, ...programs(folders)])].map(
      (file) => ({ in: file, out: outputName(file) }),
    ),
    outdir: output,
    chunkNames: 'chunk-[hash]',
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node22.18',
    // For the condition `node`, this package exports CommonJS, from which unused parts cannot be
    // removed.
    alias: { yaml: path.join(root, 'node_modules/yaml/browser/dist/index.js') },
    external: external.flatMap((name) => [name, `${name}/*`]),
    plugins: [filesPlugin, httpPlugin],
    metafile: true,
    logLevel: 'warning',
  });
  return metafile;
}

/** Writes the licences of the bundled packages. */
function copyLicences(output) {
  mkdirSync(path.join(output, 'licenses'));
  for (const name of bundledPackages) {
    const folder = path.join(root, 'node_modules', name);
    const file = readdirSync(folder).find((it) => /^licen[cs]e/i.test(it));
    if (file === undefined) throw new Error(`${name}: no licence file`);
    copyFileSync(path.join(folder, file), path.join(output, 'licenses', name));
  }
}

/** Builds the package's files into a folder. It must be named dist and be next to package.json. */
export async function buildPackage(output, { withTypes = true, withBench = false } = {}) {
  rmSync(output, { recursive: true, force: true });
  const metafile = await bundle(output, withBench);
  copyLicences(output);
  for (const shell of ['bash', 'zsh', 'fish']) {
    const command = [path.join(root, 'bin/saltbridge'), 'completion', shell];
    const script = execFileSync(process.execPath, command, { cwd: root });
    writeFileSync(path.join(output, `completion.${shell}`), script);
  }
  if (!withTypes) return metafile;
  const emitted = temporaryFolder();
  try {
    emitDeclarations(emitted);
    bundleDeclarations(emitted, path.join(output, 'types'));
  } finally {
    rmSync(emitted, { recursive: true, force: true });
  }
  return metafile;
}

if (import.meta.main) {
  const withBench = process.argv.includes('--bench');
  const withTypes = !withBench && !process.argv.includes('--js');
  await buildPackage(path.join(root, 'dist'), { withTypes, withBench });
}
