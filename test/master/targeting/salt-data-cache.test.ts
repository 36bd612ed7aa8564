import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Writable } from 'node:stream';
import test from 'ava';
import pino from 'pino';
import { createSeal } from '../../../master/auth/session-keys.ts';
import { KnownFacts, takeOverFacts } from '../../../master/jobs/minion-facts.ts';
import { createMemoryStore } from '../../../store/index.ts';
import { vectorMinions } from '../../helpers/target-vectors.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

const ids = [...vectorMinions.map(({ id }) => id), 'nodata'];

function recorded(id: string): Buffer {
  const file = `../../../../test/fixtures/minion-data-cache/salt-3007.8-${id}.hex`;
  return Buffer.from(
    readFileSync(new URL(file, import.meta.url), 'ascii').replaceAll('\n', ''),
    'hex',
  );
}

function writeData(cachedir: string, id: string, bytes: Uint8Array): void {
  mkdirSync(path.join(cachedir, 'minions', id), { recursive: true });
  writeFileSync(path.join(cachedir, 'minions', id, 'data.p'), bytes);
}

interface TakenOver {
  readonly facts: KnownFacts;
  readonly warnings: readonly { readonly minion: string; readonly file: string }[];
}

async function takeOver(cachedir: string, maxBytes = 10_000): Promise<TakenOver> {
  const facts = await KnownFacts.open({
    store: createMemoryStore(),
    seal: createSeal(new Uint8Array(32)),
    isOn: true,
    maxBytes,
    hasKey: () => true,
  });
  const lines: string[] = [];
  const sink = new Writable({
    write: (chunk, _encoding, done) => {
      lines.push(String(chunk));
      done();
    },
  });
  await takeOverFacts(facts, { cachedir, ids, maxBytes, log: pino(sink) });
  return { facts, warnings: lines.map((line) => JSON.parse(line)) };
}

test('what a real salt-master knew of its minions is known here', async (t) => {
  const cachedir = temporaryDirectory(t);
  for (const { id } of vectorMinions) writeData(cachedir, id, recorded(id));
  const { facts, warnings } = await takeOver(cachedir);
  for (const { id, grains, pillar } of vectorMinions) {
    t.deepEqual({ ...facts.of(id).grains?.whole() }, { ...grains }, id);
    t.deepEqual({ ...facts.of(id).pillar?.whole() }, { ...pillar }, id);
  }
  t.is(facts.of('nodata').grains, undefined);
  t.deepEqual(warnings, []);
});

test('files that cannot be used are named, and the others are taken', async (t) => {
  const cachedir = temporaryDirectory(t);
  writeData(cachedir, 'web1', recorded('web1').subarray(0, 50));
  writeData(cachedir, 'web2', recorded('web2'));
  writeData(cachedir, 'nodata', Buffer.from('a378797a', 'hex'));
  mkdirSync(path.join(cachedir, 'minions', 'db.Example-1', 'data.p'), { recursive: true });
  const { facts, warnings } = await takeOver(cachedir);
  t.is(facts.size, 1);
  t.is(facts.of('web2').grains?.get('os'), 'RedHat');
  t.deepEqual(warnings.map(({ minion }) => minion).sort(), ['db.Example-1', 'nodata', 'web1']);
  t.true(warnings.every(({ file }) => file.endsWith('data.p')));
});

test('a file that is too big is not read', async (t) => {
  const cachedir = temporaryDirectory(t);
  writeData(cachedir, 'web1', recorded('web1'));
  const { facts, warnings } = await takeOver(cachedir, 100);
  t.is(facts.size, 0);
  t.is(warnings.length, 1);
});

test('without such a cache nothing is taken over', async (t) => {
  const { facts, warnings } = await takeOver(path.join(temporaryDirectory(t), 'nowhere'));
  t.is(facts.size, 0);
  t.deepEqual(warnings, []);
});
