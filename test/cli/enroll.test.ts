import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'ava';
import type { ExtensionClient } from '../../client/index.ts';
import type { Enrolment } from '../../heat-bridge/index.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { runCli } from './run-cli.ts';

const enrolment: Enrolment = {
  number: 'AAAAAAAAAAAAAAAAAAAAAA',
  id: 'web-1',
  project: 'shop',
  by: 'claim',
  state: 'open',
  protocol: 3,
  createdAt: 1_700_000_000_000,
  ticketExpiresAt: 1_700_001_800_000,
  deadline: 1_700_001_800_000,
};
const made = { enrolment, ticket: 'sbt1.a.b', userData: '#cloud-config\n{}\n' };

/** A bridge that answers all alike, and what it was asked. */
function fakeBridge(answer: unknown, changes: readonly Enrolment[] = []) {
  const calls: [method: string, parameters: object][] = [];
  const client: ExtensionClient = {
    call: async (method, parameters = {}) => {
      calls.push([method, parameters]);
      // Whatever the command asks for.
      return answer as never;
    },
    stream: async function* (method, parameters = {}) {
      calls.push([method, parameters]);
      // The same.
      for (const change of changes) yield change as never;
    },
  };
  return { calls, options: { openExtension: async () => client } };
}

test('create prints the user-data as it is, and the number beside it', async (t) => {
  const beside = path.join(temporaryDirectory(t), 'own');
  await writeFile(beside, '#!/bin/sh\n');
  const { calls, options } = fakeBridge(made);
  const argv = [
    'enroll',
    'create',
    'web-1',
    '--project',
    'shop',
    '--by',
    'keys',
    '--protocol',
    '0',
  ];
  const { code, stdout, stderr } = await runCli(
    [...argv, '--beside', beside, '--lifetime', '60', '--minion-config', '/opt/salt'],
    options,
  );
  t.is(code, 0);
  t.is(stdout, made.userData);
  t.is(stderr, `Enrolment ${enrolment.number}\n`);
  const request = { id: 'web-1', project: 'shop', by: 'keys', protocol: 0, lifetime: 60 };
  t.deepEqual(calls, [
    [
      'enroll.create',
      { ...request, format: 'cloud-init', beside: '#!/bin/sh\n', configDir: '/opt/salt' },
    ],
  ]);
});

test('create prints the ticket alone where that is asked for, and everything as JSON', async (t) => {
  const argv = ['enroll', 'create', 'web-1', '--project', 'shop'];
  const { options } = fakeBridge(made);
  t.is((await runCli([...argv, '--ticket'], options)).stdout, 'sbt1.a.b\n');
  t.deepEqual(JSON.parse((await runCli([...argv, '--json'], options)).stdout), made);
});

test('whoever waits is told each state, and fails with the enrolment', async (t) => {
  const failed: Enrolment = { ...enrolment, state: 'failed', reason: 'no \u001b[2Jservice' };
  const { options } = fakeBridge(null, [enrolment, failed]);
  const { code, stderr } = await runCli(['enroll', 'wait', enrolment.number], options);
  t.is(code, 1);
  t.snapshot(stderr);
  const good = fakeBridge(null, [{ ...enrolment, state: 'signed-in' }]);
  t.is((await runCli(['enroll', 'wait', enrolment.number], good.options)).code, 0);
});

test('enrolments are listed and shown', async (t) => {
  const listed = await runCli(['enroll', 'list'], fakeBridge([enrolment]).options);
  t.is(listed.stdout, 'AAAAAAAAAAAAAAAAAAAAAA web-1 of shop by claim: open\n');
  t.snapshot(
    (await runCli(['enroll', 'show', enrolment.number], fakeBridge(enrolment).options)).stdout,
  );
});

test('what is imported comes from a file or standard input, with one project for all', async (t) => {
  const { calls, options } = fakeBridge([enrolment]);
  const input = JSON.stringify([
    { id: 'a', fingerprint: 'ff' },
    { id: 'b', project: 'own' },
  ]);
  await runCli(['enroll', 'import', '-', '--project', 'shop'], { ...options, input });
  const minions = [
    { id: 'a', fingerprint: 'ff', project: 'shop' },
    { id: 'b', project: 'own' },
  ];
  t.deepEqual(calls, [['enroll.import', { minions }]]);
  t.is((await runCli(['enroll', 'import', '-'], { ...options, input: '{}' })).code, 64);
});

test('a machine is retired by its id or by what the cloud calls it, not by both', async (t) => {
  const { calls, options } = fakeBridge(null);
  await runCli(['enroll', 'retire', 'web-1'], options);
  await runCli(['enroll', 'retire', '--instance', 'i-1'], options);
  t.deepEqual(calls, [
    ['enroll.retire', { id: 'web-1' }],
    ['enroll.retire', { instance: 'i-1' }],
  ]);
  t.is((await runCli(['enroll', 'retire'], options)).code, 64);
  t.is((await runCli(['enroll', 'retire', 'a', '--instance', 'b'], options)).code, 64);
});
