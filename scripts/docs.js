// Creates the API reference (docs/api, with a folder for each entry of the package) from the
// declarations, and the API reports (docs/reports). The reports are committed, so that reviews show
// changes of the public interface. It also updates generated pages: docs/rpc.md from the table of
// RPC methods, the table in docs/configuration.md from the option rows, docs/command-options.md
// from the subcommands, the tables in docs/compatibility/ from the compatibility table,
// docs/errors.md from the error tables, docs/limits.md from the tables of limits, and docs/metrics.md
// from the metrics of a master. With --check, it only compares the reports and the pages.
import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { CompilerState, Extractor } from '@microsoft/api-extractor';
import { coreMethods } from '#master';
import {
  emitDeclarations,
  extractorConfig,
  modules,
  quiet,
  root,
  temporaryFolder,
} from './declarations.ts';
import { updatePage } from './generated-page.ts';

const isCheck = process.argv.includes('--check');
const temporary = temporaryFolder();
const reference = path.join(root, 'docs', 'api');
const documenter = path.join(root, 'node_modules/@microsoft/api-documenter/bin/api-documenter');

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}

/** Returns the settings of API Extractor for an entry: its report, and its model in `folder`. */
function configOf(name, declarations, folder) {
  return extractorConfig(declarations, {
    apiReport: {
      enabled: true,
      reportFileName: `${name}.api.md`,
      reportFolder: path.join(root, 'docs', 'reports'),
      reportTempFolder: path.join(temporary, 'reports'),
    },
    docModel: {
      enabled: !isCheck,
      apiJsonFilePath: path.join(folder, `${name}.api.json`),
      // Types that the entry refers to only through other types, such as `MasterApi['jobs']`, get
      // pages too.
      includeForgottenExports: true,
    },
  });
}

/** Writes or compares the API report of one entry. */
function extract({ name, config }, compilerState) {
  const result = Extractor.invoke(config, {
    compilerState,
    localBuild: !isCheck,
    messageCallback: quiet,
  });
  if (isCheck && result.apiReportChanged) {
    fail(`docs/reports/${name}.api.md is not what the code promises now; run: npm run docs`);
  }
}

function document(model, folder) {
  const made = spawnSync(process.execPath, [documenter, 'markdown', '-i', model, '-o', folder], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  if (made.status !== 0) fail(`api-documenter failed for ${model}`);
}

/** Returns a short description of a parameter's type. */
function typeOf({ const: constant, anyOf, items, type }) {
  if (constant !== undefined) return `"${constant}"`;
  if (anyOf) return [...new Set(anyOf.map(typeOf))].join(' or ');
  return type === 'array' ? `list of ${typeOf(items)}` : (type ?? 'any value');
}

function parametersOf({ properties, required = [] }) {
  return Object.entries(properties)
    .map(([name, schema]) => `\`${name}${required.includes(name) ? '' : '?'}\`: ${typeOf(schema)}`)
    .join('; ');
}

const tableHead =
  '| Method | Parameters | Answer | Access | Audit action |\n|---|---|---|---|---|\n';
/** Matches the head of the table, whatever formatting the page has. */
const tableStart = /^\| Method +\|/m;

/** Writes or compares the table of RPC methods in docs/rpc.md. */
function documentMethods() {
  const rows = [...coreMethods()].map(([name, { parameters, access, isStream, audit }]) => {
    const answer = isStream ? 'stream' : 'value';
    const action = audit === undefined ? '–' : `\`${audit.action}\``;
    const columns = [`\`${name}\``, parametersOf(parameters), answer, `\`${access}\``, action];
    return `| ${columns.join(' | ')} |\n`;
  });
  updatePage('docs/rpc.md', (page) => {
    const start = page.search(tableStart);
    if (start === -1) fail('docs/rpc.md: expected a table that begins with the column Method');
    return page.slice(0, start) + tableHead + rows.sort().join('');
  });
}

process.on('exit', () => rmSync(temporary, { recursive: true, force: true }));
documentMethods();
await import('./options-doc.js');
await import('./compatibility-doc.js');
await import('./commands-doc.js');
await import('./errors-doc.ts');
await import('./limits-doc.ts');
await import('./metrics-doc.ts');
const emitted = path.join(temporary, 'emitted');
emitDeclarations(emitted);
mkdirSync(path.join(root, 'docs', 'reports'), { recursive: true });
if (!isCheck) rmSync(reference, { recursive: true, force: true });
const packages = modules.map(({ entry, name: module }) => {
  const name = module === 'saltbridge' ? module : `saltbridge-${module}`;
  const model = path.join(temporary, name);
  mkdirSync(model, { recursive: true });
  const declarations = path.join(emitted, 'exports', `${module}.d.ts`);
  return { entry, name, model, config: configOf(name, declarations, model) };
});
// All entries share one analysis, because each analysis takes as long as this one.
const [first, ...others] = packages.map(({ config }) => config);
const compilerState = CompilerState.create(first, {
  additionalEntryPoints: others.map(({ mainEntryPointFilePath }) => mainEntryPointFilePath),
});
const pages = [];
for (const one of packages) {
  extract(one, compilerState);
  if (isCheck) continue;
  document(one.model, path.join(reference, one.name));
  pages.push(`- [${one.entry.replace('.', 'saltbridge')}](${one.name}/index.md)`);
}
if (!isCheck) {
  writeFileSync(path.join(reference, 'index.md'), `# API reference\n\n${pages.join('\n')}\n`);
  process.stdout.write('docs/api/index.md\n');
}
