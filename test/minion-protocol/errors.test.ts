import test from 'ava';
import { ProtocolError, protocolErrors } from '../../minion-protocol/errors.ts';

test('an error has its name, its code and its cause', (t) => {
  const cause = new Error('below');
  const error = new ProtocolError('ERR_NONCE', 'text', { cause });
  t.is(error.name, 'ProtocolError');
  t.is(error.code, 'ERR_NONCE');
  t.is(error.cause, cause);
  t.true(String(error).startsWith('ProtocolError: text'));
  t.false(Object.keys(error).includes('name'));
});

test('every code has a meaning and something to do, each its own', (t) => {
  const entries = Object.values(protocolErrors);
  for (const { meaning, action } of entries) {
    t.regex(meaning, /^[A-Z].*\.$/);
    t.regex(action, /^[A-Z].*\.$/);
  }
  t.is(new Set(entries.map(({ meaning }) => meaning)).size, entries.length);
});
