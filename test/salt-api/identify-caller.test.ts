/** Log-ins that are valid for one command only. */
import test from 'ava';
import { identifyCaller } from '#salt-api/routes/root.ts';

test('a log-in for one command ends if its caller cannot be identified', async (t) => {
  const ended: string[] = [];
  const times = { start: 0, expire: 1 };
  const master = {
    asUser: () => {
      throw new Error('not used');
    },
    logins: {
      login: async () => ({
        token: 'T',
        id: 'i',
        user: 'u',
        eauth: 'pam',
        groups: [],
        perms: [],
        ...times,
      }),
      identify: async () => {
        throw new Error('of the test');
      },
      logout: async (token: string) => ended.push(token) > 0,
    },
  };
  const low = { username: 'u', password: 'p', eauth: 'pam' };
  await t.throwsAsync(identifyCaller({ master }, low, '127.0.0.1'), { message: 'of the test' });
  t.deepEqual(ended, ['T']);
});
