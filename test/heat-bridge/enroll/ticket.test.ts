import test from 'ava';
import fc from 'fast-check';
import nacl from 'tweetnacl';
import {
  isGenuine,
  signTicket,
  type TicketClaims,
  tryReadTicket,
} from '../../../heat-bridge/enroll/ticket.ts';

const key = nacl.sign.keyPair.fromSeed(new Uint8Array(32).fill(7));
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
      const read = tryReadTicket(signTicket(said, key.secretKey));
      t.deepEqual(read?.claims, said);
      t.true(read !== undefined && isGenuine(read, key.publicKey));
    }),
    { numRuns: 25 },
  );
});

test('a ticket of another key, or with another claim, is not genuine', (t) => {
  const ticket = signTicket(claims, key.secretKey);
  const other = nacl.sign.keyPair.fromSeed(new Uint8Array(32).fill(8));
  const read = tryReadTicket(ticket);
  t.false(read !== undefined && isGenuine(read, other.publicKey));
  const [head, , signature] = ticket.split('.');
  const altered = Buffer.from(JSON.stringify({ ...claims, minion: 'web-2' })).toString('base64url');
  const forged = tryReadTicket([head, altered, signature].join('.'));
  t.is(forged?.claims.minion, 'web-2');
  t.false(forged !== undefined && isGenuine(forged, key.publicKey));
});

test('what is no ticket is not read, whatever it is', (t) => {
  const ticket = signTicket(claims, key.secretKey);
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
  for (const text of wrong) t.is(tryReadTicket(text), undefined, text.slice(0, 40));
  fc.assert(
    fc.property(fc.string({ maxLength: 300 }), (text) => tryReadTicket(text) === undefined),
  );
});
