/** The exports of the package: their number is limited, and all of them can be imported. */

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import test from 'ava';

const root = fileURLToPath(new URL('../', import.meta.url));
const maxExports = 250;
const maxRootExports = 80;

interface PackageFile {
  readonly exports: Readonly<Record<string, string>>;
}

const { exports: entries }: PackageFile = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));

/** Source file of each entry point. */
const sources = Object.entries(entries).flatMap(([entry, target]) =>
  target.endsWith('.ts') ? [[entry, target] as const] : [],
);

/** Returns the names that an entry point exports, including types. */
function exportedNames(file: string): readonly string[] {
  const text = readFileSync(`${root}${file}`, 'utf8').replaceAll(/\/\*.*?\*\//gs, '');
  const lists = [...text.matchAll(/export (?:type )?\{([^}]*)\} from '[^']+';/g)];
  const rest = lists.reduce((left, [whole]) => left.replace(whole, ''), text);
  if (rest.trim() !== '') throw new Error(`${file} has more than lists of exports: ${rest.trim()}`);
  return lists.flatMap(([, list = '']) =>
    list
      .split(',')
      .map((name) => name.replace(/^\s*type\s|.*\sas\s/g, '').trim())
      .filter((name) => name !== ''),
  );
}

const names = new Map(sources.map(([entry, file]) => [entry, exportedNames(file)] as const));

test(`all entries together export at most ${maxExports} names, types included`, (t) => {
  const count = [...names.values()].flat().length;
  t.true(count > 0 && count <= maxExports, `${count} names`);
});

test(`the root entry exports at most ${maxRootExports} names, types included`, (t) => {
  const count = names.get('.')?.length ?? 0;
  t.true(count > 0 && count <= maxRootExports, `${count} names`);
});

test('every entry can be imported by the name of the package', async (t) => {
  for (const [entry, exported] of names) {
    const specifier = entry.replace('.', 'saltbridge');
    const loaded: object = await import(specifier);
    const unlisted = Object.keys(loaded).filter((name) => !exported.includes(name));
    t.deepEqual(unlisted, [], specifier);
    t.true(Object.keys(loaded).length > 0, specifier);
  }
});

test('no exported function is called by a verb alone', async (t) => {
  const allowed = new Set(['serve']);
  for (const [entry] of names) {
    const loaded: object = await import(entry.replace('.', 'saltbridge'));
    const bare = Object.entries(loaded)
      .filter(([name, value]) => typeof value === 'function' && /^[a-z]+$/.test(name))
      .map(([name]) => name);
    t.deepEqual(
      bare.filter((name) => !allowed.has(name)),
      [],
      entry,
    );
  }
});
