/** Encryption of the messages between members. */
import { randomBytes } from 'node:crypto';
import test from 'ava';
import { LogCipher } from '#cluster/log/cipher.ts';

test('messages with forged sessions do not displace the keys of the members', (t) => {
  const secret = randomBytes(32);
  const [own, member] = [0, 1].map(() => new LogCipher(secret, 'c', 'entry'));
  const { bytes } = member?.seal(Buffer.from('a')) ?? { bytes: Buffer.alloc(0) };
  t.is(own?.open(bytes)?.body.toString(), 'a');
  for (let forged = 0; forged < 100; forged += 1) {
    const altered = Buffer.from(bytes);
    randomBytes(16).copy(altered, 1);
    t.is(own?.open(altered), undefined);
  }
  t.is(own?.knownSessions, 1);
  t.is(own?.open(bytes)?.body.toString(), 'a');
});

test('the keys of other sessions do not displace that of a member that writes', (t) => {
  const secret = randomBytes(32);
  const own = new LogCipher(secret, 'c', 'entry');
  const member = new LogCipher(secret, 'c', 'entry');
  for (let other = 0; other < 200; other += 1) {
    t.truthy(own.open(member.seal(Buffer.from('a')).bytes));
    t.truthy(own.open(new LogCipher(secret, 'c', 'entry').seal(Buffer.from('b')).bytes));
    t.true(own.knows(member.session));
  }
  t.is(own.knownSessions, 64);
});
