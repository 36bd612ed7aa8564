// Creates the type declarations of the package. `emitDeclarations` compiles them into a folder.
// `bundleDeclarations` bundles them into one file, with only the declarations that the entries of
// the package export or refer to.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  Extractor,
  ExtractorConfig,
  ExtractorLogLevel,
  type ExtractorMessage,
  type IConfigFile,
} from '@microsoft/api-extractor';

export const root: string = fileURLToPath(new URL('..', import.meta.url));
interface PackageFile {
  readonly exports: Readonly<Record<string, string>>;
  readonly imports: Readonly<Record<string, string>>;
}

const { exports: entries, imports }: PackageFile = JSON.parse(
  readFileSync(path.join(root, 'package.json'), 'utf8'),
);

/** An entry in `exports` of package.json that is a module. */
interface EntryModule {
  /** Key of the module in `exports` of package.json. */
  readonly entry: string;
  readonly name: string;
  readonly file: string;
}

/** Entries of the package that are modules. */
export const modules: readonly EntryModule[] = Object.entries(entries)
  .filter(([, target]) => target.endsWith('.ts'))
  .map(([entry, target]) => ({
    entry,
    name: entry === '.' ? 'saltbridge' : entry.slice(2),
    file: path.join(root, target),
  }));

/**
 * Creates a temporary folder inside this checkout, so that imports in the declaration files there
 * find the packages of the checkout.
 */
export function temporaryFolder(): string {
  const parent = path.join(root, 'temp');
  mkdirSync(parent, { recursive: true });
  return mkdtempSync(path.join(parent, 'declarations-'));
}

const specifier = /(\bfrom |\bimport\()(['"])([#.][^'"]*)\2/g;

/** Returns the import specifier of a module, relative to `folder`. */
function relativeSpecifier(target: string, folder: string): string {
  const name = path.relative(folder, target).replace(/\.ts$/, '.js');
  return name.startsWith('.') ? name : `./${name}`;
}

/** Writes the declarations of the entries, and of all modules that they import, into `folder`. */
export function emitDeclarations(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const project = path.join(folder, 'tsconfig.json');
  const compilerOptions = {
    noEmit: false,
    emitDeclarationOnly: true,
    incremental: false,
    tsBuildInfoFile: null,
    rootDir: root,
    outDir: folder,
    typeRoots: [path.join(root, 'node_modules/@types')],
  };
  writeFileSync(
    project,
    JSON.stringify({
      extends: path.join(root, 'tsconfig.json'),
      compilerOptions,
      include: [],
      files: modules.map(({ file }) => file),
    }),
  );
  const compiler = path.join(root, 'node_modules/typescript/bin/tsc');
  const { status } = spawnSync(process.execPath, [compiler, '-p', project], {
    stdio: ['ignore', 2, 2],
  });
  if (status !== 0)
    throw new Error('cannot compile the type declarations; the output of tsc names the errors');
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (name.endsWith('.d.ts')) placeSpecifiers(folder, name);
  }
}

/**
 * Replaces import specifiers in a declaration file with relative paths. It replaces the forms
 * `#directory`, `#directory/file.ts` and `./file.ts`, which only this checkout can resolve.
 */
function placeSpecifiers(folder: string, name: string): void {
  const file = path.join(folder, name);
  const here = path.dirname(name);
  const text = readFileSync(file, 'utf8').replaceAll(specifier, (_, before, quote, target) => {
    const place = target.startsWith('#') ? resolveRoom(target) : path.join(here, target);
    return `${before}${quote}${relativeSpecifier(place, here)}${quote}`;
  });
  writeFileSync(file, text);
}

/**
 * Returns the path of a module relative to the root of the checkout.
 * @param name - import specifier, for example `#runtime` or `#runtime/errors.ts`
 */
function resolveRoom(name: string): string {
  const [room = '', ...rest] = name.split('/');
  return rest.length === 0 ? path.join(imports[room] ?? '') : path.join(room.slice(1), ...rest);
}

/** Returns the settings of API Extractor for one declaration file. */
export function extractorConfig(
  declarations: string,
  settings: Partial<IConfigFile>,
): ExtractorConfig {
  return ExtractorConfig.prepare({
    configObject: {
      projectFolder: root,
      mainEntryPointFilePath: declarations,
      compiler: { overrideTsconfig: { ...extractorProject, files: [declarations] } },
      newlineKind: 'lf',
      messages: {
        extractorMessageReporting: { default: { logLevel: ExtractorLogLevel.None } },
        compilerMessageReporting: { default: { logLevel: ExtractorLogLevel.None } },
        tsdocMessageReporting: { default: { logLevel: ExtractorLogLevel.None } },
      },
      apiReport: { enabled: false },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      ...settings,
    },
    configObjectFullPath: path.join(root, 'api-extractor.json'),
    packageJsonFullPath: path.join(root, 'package.json'),
  });
}

/**
 * Compiler options for API Extractor. API Extractor contains an older TypeScript, which does not
 * support all compiler options of this project.
 */
const extractorProject = {
  compilerOptions: {
    module: 'nodenext',
    target: 'es2023',
    lib: ['es2024', 'esnext'],
    types: ['node'],
    strict: true,
    skipLibCheck: true,
  },
};

/**
 * Writes types.d.ts, and for each entry a file that exports the entry's names from types.d.ts. All
 * entries share one file because each class must be declared only once. Two declarations of a class
 * with private members would be incompatible types.
 */
export function bundleDeclarations(emitted: string, folder: string): void {
  const all = path.join(emitted, 'all.d.ts');
  const lines = modules.map(({ name }) => `export * from './exports/${name}.js';\n`);
  writeFileSync(all, lines.join(''));
  mkdirSync(folder, { recursive: true });
  const result = Extractor.invoke(
    extractorConfig(all, {
      dtsRollup: { enabled: true, untrimmedFilePath: path.join(folder, 'types.d.ts') },
    }),
    { localBuild: true, messageCallback: quiet },
  );
  if (result.errorCount > 0) throw new Error('API Extractor cannot bundle the type declarations');
  for (const { name } of modules) {
    const text = readFileSync(path.join(emitted, 'exports', `${name}.d.ts`), 'utf8');
    const lists = text
      .replaceAll(specifier, "$1'./types.js'")
      // types.d.ts declares each name under its exported name.
      .replaceAll(/export (?:type )?\{[^}]*\}/g, (list) => list.replaceAll(/\w+ as (\w+)/g, '$1'));
    writeFileSync(path.join(folder, `${name}.d.ts`), lists);
  }
}

/** Suppresses all messages of API Extractor except errors. */
export function quiet(message: ExtractorMessage): void {
  message.handled ||= message.logLevel !== 'error';
}
