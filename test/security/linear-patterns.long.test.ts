/**
 * Regular expressions of the product take linear time. A text that a stranger, a minion or a user
 * can send would otherwise stop the master for a time that grows with the square of its length.
 */

import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Node, parse } from 'acorn';
import test from 'ava';
import { transformSync } from 'esbuild';
import { analyse } from 'scslre';
import packageFile from '../../package.json' with { type: 'json' };

const root = fileURLToPath(new URL('../../', import.meta.url));

/**
 * Expressions that the analysis reports although their work is limited, by file, with the reason.
 */
const limited: Readonly<Record<string, string>> = {
  'template/python/text-wrap.ts':
    'the expression of Python, whose work the filter wordwrap counts before it runs',
};

/** Folders of the product's source code. */
const rooms = Object.values(packageFile.imports).flatMap((file) =>
  file.endsWith('/*') ? [file.slice(2, -2)] : [],
);

interface Found {
  readonly file: string;
  readonly source: string;
  readonly flags: string;
}

function expressionsIn(file: string): Found[] {
  const text = readFileSync(path.join(root, file), 'utf8');
  const { code } = transformSync(text, { loader: 'ts', target: 'esnext' });
  const found: Found[] = [];
  visit(parse(code, { ecmaVersion: 'latest', sourceType: 'module' }), (regex) =>
    found.push({ file, source: regex.pattern, flags: regex.flags }),
  );
  return found;
}

type Regex = { readonly pattern: string; readonly flags: string };

function visit(value: unknown, take: (regex: Regex) => void): void {
  if (Array.isArray(value)) {
    for (const item of value) visit(item, take);
  } else if (isNode(value)) {
    if ('regex' in value) take(value.regex as Regex);
    else visit(Object.values(value), take);
  }
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value;
}

/** Whether a text exists for which the time is more than proportional to its length. */
function isSlow({ source, flags }: Pick<Found, 'flags' | 'source'>): boolean {
  const reportTypes = { Self: true, Trade: true, Move: true } as const;
  return analyse({ source, flags }, { reportTypes, maxReports: 1 }).reports.length > 0;
}

test('the analysis finds expressions that take quadratic or exponential time', (t) => {
  for (const source of [String.raw`\/+$`, String.raw`^\s*-?\s*x`, '^(?:a+)*$', '<.*?>']) {
    t.true(isSlow({ source, flags: 's' }), source);
  }
  for (const source of ['^/+', '<[^>]*>?', '[*?[].*']) {
    t.false(isSlow({ source, flags: 's' }), source);
  }
});

test('every regular expression of the product takes linear time', (t) => {
  const files = rooms.flatMap((room) =>
    readdirSync(path.join(root, room), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => path.join(room, name)),
  );
  const expressions = files.flatMap(expressionsIn);
  t.true(expressions.length > 500);
  const slow = expressions.filter(isSlow);
  t.deepEqual(
    slow
      .filter(({ file }) => !Object.hasOwn(limited, file))
      .map(({ file, source }) => [file, source]),
    [],
  );
  // An exception that nothing needs any more is removed.
  t.deepEqual([...new Set(slow.map(({ file }) => file))].sort(), Object.keys(limited).sort());
});
