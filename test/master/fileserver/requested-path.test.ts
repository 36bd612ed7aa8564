import test from 'ava';
import { relativePath, requestedFile } from '../../../master/files/file-server.ts';

test('a path is read with the environment of its load', (t) => {
  t.deepEqual(requestedFile('a/b.sls', 'dev'), { path: 'a/b.sls', saltenv: 'dev' });
});

test('an environment behind the path wins over that of the load', (t) => {
  t.deepEqual(requestedFile('a?x=1&saltenv=dev', 'base'), { path: 'a', saltenv: 'dev' });
});

test('an escaped path has no query', (t) => {
  t.deepEqual(requestedFile('|a?saltenv=dev', 'base'), { path: 'a?saltenv=dev', saltenv: 'base' });
});

test('an environment that is a number is its digits', (t) => {
  t.deepEqual(requestedFile('a', 3), { path: 'a', saltenv: '3' });
});

for (const [what, path] of Object.entries({
  'an absolute path': '/etc/passwd',
  'an escaped absolute path': '|/etc/passwd',
  'a path that goes up': '../a',
  'a path that goes up in between': 'a/../../b',
  'a path that goes up at the end': 'a/..',
  'a path with NUL': 'a\0.sls',
  'the root itself': '.',
  'an empty path': '',
  'only slashes behind a dot': './/',
  'a path of 5,000 bytes': 'a'.repeat(5000),
  'a path that goes up behind a query': '..?saltenv=base',
  'bytes that are not UTF-8': Buffer.from([0xff, 0x2f]),
  'a number': 7,
  nothing: null,
})) {
  test(`${what} names no file`, (t) => {
    t.is(requestedFile(path, 'base'), undefined);
  });
}

for (const saltenv of [undefined, null, '', true, ['base']]) {
  test(`an environment given as ${JSON.stringify(saltenv)} is none`, (t) => {
    t.is(requestedFile('a', saltenv), undefined);
  });
}

test('names with dots, backslashes and percent signs are names', (t) => {
  for (const name of ['...', '..a', 'a..', '..\\a', '%2e%2e', 'ä/✓'])
    t.is(relativePath(name), name);
});

test('doubled slashes and dots are taken out', (t) => {
  t.is(relativePath('./a//b/./c/'), 'a/b/c');
});
