import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import fc from 'fast-check';
import nacl from 'tweetnacl';
import {
  openTicketKey,
  signTicket,
  type TicketClaims,
  tryParseTicket,
  verifyTicket,
} from '../../../heat-bridge/enroll/tickets.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

const key = generateKeyPairSync('ed25519');
const claims: TicketClaims = {
  number: 'AAAAAAAAAAAAAAAAAAAAAA',
  minion: 'web-1',
  project: 'p1',
  expiresAt: 1_700_000_000_000,
};

test('a ticket says what was signed', (t) => {
  const text = fc.string({ minLength: 1, maxLength: 40, unit: 'grapheme' });
  fc.assert(
    fc.property(text, text, fc.option(text, { nil: undefined }), (minion, project, instance) => {
      const said = { ...claims, minion, project, ...(instance === undefined ? {} : { instance }) };
      const read = tryParseTicket(signTicket(said, key.privateKey));
      t.deepEqual(read?.claims, said);
      t.true(read !== undefined && verifyTicket(read, key.publicKey));
    }),
    { numRuns: 25 },
  );
});

test('a ticket of another key, or with another claim, is not genuine', (t) => {
  const ticket = signTicket(claims, key.privateKey);
  const other = generateKeyPairSync('ed25519');
  const read = tryParseTicket(ticket);
  t.false(read !== undefined && verifyTicket(read, other.publicKey));
  const [head, , signature] = ticket.split('.');
  const altered = Buffer.from(JSON.stringify({ ...claims, minion: 'web-2' })).toString('base64url');
  const forged = tryParseTicket([head, altered, signature].join('.'));
  t.is(forged?.claims.minion, 'web-2');
  t.false(forged !== undefined && verifyTicket(forged, key.publicKey));
});

test('what is no ticket is not read, whatever it is', (t) => {
  const ticket = signTicket(claims, key.privateKey);
  const signed = (value: unknown): string =>
    `sbt1.${Buffer.from(JSON.stringify(value)).toString('base64url')}.${ticket.split('.')[2]}`;
  const wrong = [
    '',
    'sbt1',
    `${ticket}x`,
    `${ticket}\n`,
    ticket.replace('sbt1', 'sbt2'),
    signed(null),
    signed({ ...claims, number: '../../../../etc/passwd' }),
    signed({ ...claims, expiresAt: '1' }),
    signed({ ...claims, more: 1 }),
    signed({ ...claims, minion: 'm'.repeat(3000) }),
  ];
  for (const text of wrong) t.is(tryParseTicket(text), undefined, text.slice(0, 40));
  fc.assert(
    fc.property(fc.string({ maxLength: 300 }), (text) => tryParseTicket(text) === undefined),
  );
});

test('the file of the key holds the seed of an Ed25519 pair', async (t) => {
  const file = path.join(temporaryDirectory(t), 'ticket.key');
  const seed = new Uint8Array(32).fill(7);
  writeFileSync(file, `${Buffer.from(seed).toString('base64')}\n`);
  const ticket = signTicket(claims, (await openTicketKey(file)).privateKey);
  const [head, body, signature = ''] = ticket.split('.');
  const { secretKey } = nacl.sign.keyPair.fromSeed(seed);
  const signed = nacl.sign.detached(new Uint8Array(Buffer.from(`${head}.${body}`)), secretKey);
  t.is(signature, Buffer.from(signed).toString('base64url'));
});
