/** Documents must name only files of this repository that exist. */

import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import test from 'ava';
import { exitCodeOf, exitCodes } from '#cli/errors.ts';
import { resolveMasterConfig } from '#config';
import { DEFAULT_CONNECTION_LIMITS } from '#minion-protocol/transport/stream-listener.ts';
import type { ErrorEntry } from '#runtime';
import { doctorCodes } from '#server/diagnostics/report.ts';
import { printSizing } from '../bench/sizing.ts';
import { errorTables } from '../scripts/errors-doc.ts';
import { documents, relativeLinks } from './helpers/markdown.ts';
import { testWhere } from './helpers/needs.ts';
import { withoutNpm } from './helpers/packed-project.ts';

const root = fileURLToPath(new URL('../', import.meta.url));

const documentsOfSources = documents().filter(
  (name) => name === 'CONTRIBUTING.md' || /^docs\/(ARCHITECTURE|architecture)\b/.test(name),
);

for (const document of documentsOfSources) {
  test(`every source file that ${document} names exists`, (t) => {
    const text = readFileSync(`${root}${document}`, 'utf8');
    const named = [...text.matchAll(/`((?:[\w-]+\/)+[\w.-]+\.ts)`/g)].map(([, file = '']) => file);
    t.true(named.length > 1);
    t.deepEqual(
      named.filter((file) => !existsSync(`${root}${file}`)),
      [],
    );
  });
}

test('docs/README.md links to every page', (t) => {
  const links = new Set(relativeLinks('docs/README.md').map(({ target }) => target));
  t.deepEqual(
    documents().filter((it) => it !== 'docs/README.md' && !links.has(it)),
    [],
  );
});

test('README.md fits two screens, and links to docs/README.md', (t) => {
  const lines = readFileSync(`${root}README.md`, 'utf8').split('\n');
  t.true(lines.length <= 130, `${lines.length} lines`);
  t.true(relativeLinks('README.md').some(({ target }) => target === 'docs/README.md'));
});

/** Returns the citations of a document in the comments of the sources. */
function citations(document: string, form: RegExp): Set<string> {
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.ts') && !/(?:^|\/)(?:node_modules|dist)\//.test(file),
  );
  const cited = files.flatMap((file) => [
    ...readFileSync(`${root}${file}`, 'utf8').matchAll(
      new RegExp(`\\b${document} ([^\\];)\\n]*)`, 'g'),
    ),
  ]);
  return new Set(cited.flatMap(([, text = '']) => text.match(form) ?? []));
}

test('every section of the wire protocol that a comment cites is in docs/wire.md', (t) => {
  const text = readFileSync(`${root}docs/wire.md`, 'utf8');
  const sections = new Set([...text.matchAll(/^##+ (\d+(?:\.\d+)?) /gm)].map(([, n]) => n));
  const cited = [...citations('WIRE', /^\d+(?:\.\d+)?|(?<=, |to )\d+(?:\.\d+)?/g)];
  t.true(cited.length > 50);
  t.deepEqual(
    cited.filter((section) => !sections.has(section)),
    [],
  );
});

test('every threat that a comment cites is in the catalogue', (t) => {
  const catalogue = readFileSync(`${root}test/security/catalogue.ts`, 'utf8');
  const cited = [...citations('THREATS', /[A-Z]-\d+/g)];
  t.true(cited.length > 40);
  t.deepEqual(
    cited.filter((id) => !catalogue.includes(`'${id}'`)),
    [],
  );
});

test('docs/doctor.md lists exactly the findings of the doctor', (t) => {
  const text = readFileSync(`${root}docs/doctor.md`, 'utf8');
  const codes = [...text.matchAll(/^\| `([a-z0-9-]+)` /gm)].map(([, code]) => code);
  t.deepEqual(codes, [...doctorCodes]);
});

const entries = errorTables.flatMap((table): [string, ErrorEntry][] => Object.entries(table));
const document = readFileSync(new URL('../docs/errors.md', import.meta.url), 'utf8');
const rows = new Map(
  [...document.matchAll(/^\| `(ERR_\w+)` *\| (.*?) *\| (.*?) *\| (yes|no) *\|$/gm)].map(
    ([, code = '', meaning, action, retry]) => [code, { meaning, action, retry: retry === 'yes' }],
  ),
);

test('docs/command-options.md has the options that the subcommands define', (t) => {
  const check = [`${root}scripts/commands-doc.js`, '--check'];
  const { status, stderr } = spawnSync(process.execPath, check, { encoding: 'utf8' });
  t.is(status, 0, stderr);
});

test('no code is used by two modules', (t) => {
  const codes = entries.map(([code]) => code);
  t.deepEqual([...new Set(codes)].sort(), codes.sort());
});

test('docs/errors.md describes each code like its table', (t) => {
  for (const [code, { meaning, action, retry = false }] of entries) {
    t.deepEqual({ ...rows.get(code) }, { meaning, action, retry }, code);
  }
});

test('every code has an exit code of the command line, and none that of a bug', (t) => {
  for (const [code] of entries) {
    const exitCode = exitCodeOf(code);
    t.true(exitCode !== undefined && exitCode !== exitCodes.software, code);
  }
});

test('docs/errors.md has no unused code', (t) => {
  t.deepEqual([...rows.keys()].sort(), entries.map(([code]) => code).sort());
});

// The systemd unit allows what a master needs with the default configuration.

const unitFile = fileURLToPath(new URL('../packaging/saltbridge.service', import.meta.url));
const settings = new Map(
  [...readFileSync(unitFile, 'utf8').matchAll(/^(\w+)=(.*)$/gm)].map(
    ([, name = '', value = '']) => [name, value],
  ),
);

function directoriesOf(name: string, root: string): string[] {
  return (settings.get(name) ?? '').split(' ').map((it) => `${root}/${it}`);
}

test('the unit creates the default folders of a master, and permits writing there', (t) => {
  const { stateDir, cachedir, socket, logFile, pkiDir } = resolveMasterConfig({});
  t.true(directoriesOf('StateDirectory', '/var/lib').includes(stateDir));
  t.true(directoriesOf('CacheDirectory', '/var/cache').includes(cachedir));
  t.true(directoriesOf('RuntimeDirectory', '/var/run').some((it) => socket.startsWith(`${it}/`)));
  t.true(directoriesOf('LogsDirectory', '/var/log').some((it) => logFile.startsWith(`${it}/`)));
  t.true(pkiDir.startsWith((settings.get('ReadWritePaths') ?? '').replace(/^-/, '')));
  t.is(settings.get('StateDirectoryMode'), '0700');
});

test('the unit permits as many files as connections', (t) => {
  t.true(Number(settings.get('LimitNOFILE')) > 2 * DEFAULT_CONNECTION_LIMITS.maxConnections);
});

test('the unit reloads with the signal on which the master reads its configuration', (t) => {
  t.is(settings.get('ExecReload'), '/bin/sh -c "kill -HUP $MAINPID"');
});

test('the unit accepts notifications only of its own process, and stores no core dumps', (t) => {
  t.is(settings.get('Type'), 'notify');
  t.is(settings.get('NotifyAccess'), 'all');
  t.is(settings.get('LimitCORE'), '0');
});

const hasSystemd = spawnSync('systemd-analyze', ['--version']).error === undefined;

testWhere(hasSystemd, 'the package systemd')('systemd reads the unit without a complaint', (t) => {
  const verify = ['verify', unitFile];
  const { stderr } = spawnSync('systemd-analyze', verify, { encoding: 'utf8' });
  t.notRegex(stderr, /saltbridge\.service/);
});

test('npm pack, which would pack sources, fails and names the command that packs', (t) => {
  const { status, stderr } = spawnSync('npm', ['pack', '--dry-run'], {
    cwd: root,
    encoding: 'utf8',
    env: withoutNpm(),
  });
  t.not(status, 0);
  t.regex(stderr, /npm run package/);
});

test('docs/scaling.md has the figures that `npm run bench -- sizing` prints', (t) => {
  const text = readFileSync(`${root}docs/scaling.md`, 'utf8');
  const rows = [...text.matchAll(/^\|[^|]+\|(.+)\|$/gm)].map(([, cells = '']) => ({
    cells: cells.split('|').map((cell) => cell.trim()),
  }));
  const loads = [['minions=2000'], [], ['jobs=1', 'width=200'], ['minions=150000']];
  for (const [column, words] of loads.entries()) {
    const lines: string[] = [];
    t.is(
      printSizing(words, (line) => lines.push(line)),
      0,
    );
    const written = rows.flatMap(({ cells }) => cells[column] ?? []);
    const figures = written.filter((cell) => /^[\d.]+( GB| s|\/s| MB\/s|)$/.test(cell));
    t.true(figures.length > 4);
    for (const figure of figures) {
      t.true(
        lines.some((line) => line.includes(` ${figure}`)),
        `${words}: ${figure}`,
      );
    }
  }
  t.is(
    printSizing(['minions=1000000'], () => {}),
    1,
  );
  t.is(
    printSizing(['minons=1'], () => {}),
    64,
  );
});
