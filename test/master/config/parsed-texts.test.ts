import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { checkMasterConfig, overlayConfig, readOptions, resolvePlainOptions } from '#config';
import { parsedOnce } from '#config/parsed-texts.ts';
import { parseConfigFile } from '#config/read-files.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

/** Text of a policy that is large enough to be kept. */
function policy(action: string): string {
  let text = 'file_roots: {base: [/srv/a, /srv/b]}\nsaltbridge:\n  acl:\n    rules:\n';
  for (let index = 0; index < 300; index += 1) {
    text += `      rule ${index}:\n        subject: { minion: "n${index}-*" }\n        action: ${action}\n`;
    text += `        resource: { fun: "app${index}.restart" }\n`;
  }
  return text;
}

test('a large text is parsed once for files of different names', (t) => {
  const text = policy('publish');
  let count = 0;
  const read = (file: string): ReturnType<typeof parseConfigFile> =>
    parsedOnce(text, file, (given, name) => {
      count += 1;
      return parseConfigFile(given, name);
    });
  t.deepEqual(read('/first/master'), parseConfigFile(text, '/first/master'));
  t.deepEqual(read('/second/master'), parseConfigFile(text, '/second/master'));
  t.is(count, 1);
});

test('readers of a text under the same name share it, and cannot change it', (t) => {
  const text = `ext_pillar: [{ cmd: [a, { b: c }] }]\n${policy('publish')}`;
  const read = (): unknown => parsedOnce(text, '/shared/master', parseConfigFile);
  const shared = read();
  t.is(read(), shared);
  const partsOf = (value: unknown): unknown[] => {
    if (value instanceof Map) return [value, ...[...value.values()].flatMap(partsOf)];
    if (typeof value !== 'object' || value === null) return [];
    return [value, ...Object.values(value).flatMap(partsOf)];
  };
  for (const part of partsOf(shared)) {
    t.throws(() => change(part), { instanceOf: TypeError });
  }
  t.deepEqual(read(), parseConfigFile(text, '/shared/master'));
});

function change(part: unknown): void {
  if (part instanceof Map) {
    for (const remove of [() => part.clear(), () => part.delete('base')]) {
      try {
        remove();
      } catch {
        continue;
      }
      return;
    }
    part.set('new', 1);
  } else if (Array.isArray(part)) part.push(1);
  else Object.assign(Object(part), { value: 1 });
}

test('configurations of the same content and name share their rules', async (t) => {
  const rulesIn = async (text: string, name: string): Promise<readonly unknown[]> => {
    const directory = temporaryDirectory(t);
    writeFileSync(path.join(directory, 'master'), text);
    const { settings, problems } = await readOptions(directory, name);
    t.deepEqual(problems, []);
    const base = resolvePlainOptions({ rootDir: directory });
    return overlayConfig(base, settings, 'master').config.acl.rules;
  };
  const rules = await rulesIn(policy('publish'), 'bundle');
  const same = await rulesIn(policy('publish'), 'bundle');
  const other = await rulesIn(policy('runner'), 'bundle');
  t.true(rules.every((rule, index) => rule === same[index] && rule !== other[index]));
  t.true(rules.every((rule) => Object.isFrozen(rule)));
});

test('a text that differs is parsed, and a mistake is reported each time', (t) => {
  const text = policy('publish');
  const parse = (given: string): unknown => parsedOnce(given, '/etc/salt/master', parseConfigFile);
  t.notDeepEqual(parse(text), parse(policy('runner')));
  for (const _ of [1, 2]) t.throws(() => parse(`${text}bad: [`), { code: 'ERR_CONFIG_SYNTAX' });
});

test('mistakes name the file that was read', async (t) => {
  const directories = [temporaryDirectory(t), temporaryDirectory(t)];
  for (const directory of directories) {
    mkdirSync(directory, { recursive: true });
    writeFileSync(path.join(directory, 'master'), `${policy('fly')}`);
    const { problems } = await checkMasterConfig(directory);
    t.true(problems.length > 0);
    t.true(problems.every(({ file }) => file === path.join(directory, 'master')));
  }
});
