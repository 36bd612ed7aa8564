/**
 * Log-in backend for accounts of this machine, through PAM [salt/auth/pam.py]. Node.js cannot call
 * libpam, so a pamtester process performs each check.
 */

import { findAccount } from './accounts.ts';
import type { LoginBackend } from './backend.ts';
import { AuthenticationError } from './errors.ts';
import { type ProgramOutcome, runProgram } from './run-program.ts';

const program = 'pamtester';
const absent = 'pam is not available: the program pamtester is not installed; install it';

/**
 * Creates the backend.
 * @param service - name of the PAM service. A client cannot choose it [THREATS C-14]
 */
export function createPamBackend(service: string): LoginBackend {
  return {
    name: 'pam',
    authenticate: async ({ username, password }, signal) => {
      const words = [service, username, 'authenticate', 'acct_mgmt'];
      const { code } = await run(words, `${password}\n`, signal);
      if (code !== 0) return undefined;
      const account = await findAccount(username, signal);
      return { user: account?.name ?? username, groups: account?.groups ?? [] };
    },
    standingOf: async ({ user }, signal) => {
      // This check detects deleted and expired accounts. It does not detect accounts with a locked
      // password.
      const { code } = await run([service, user, 'acct_mgmt'], '', signal);
      if (code !== 0) return { state: 'gone' };
      const account = await findAccount(user, signal);
      return { state: 'valid', groups: account?.groups ?? [] };
    },
    obstacle: async () => {
      try {
        await runProgram(program, [], { signal: AbortSignal.timeout(5000) });
        return undefined;
      } catch {
        return absent;
      }
    },
  };
}

async function run(
  words: readonly string[],
  input: string,
  signal: AbortSignal,
): Promise<ProgramOutcome> {
  let outcome: ProgramOutcome;
  try {
    outcome = await runProgram(program, words, { input, signal });
  } catch (cause) {
    throw new AuthenticationError('ERR_EAUTH_UNAVAILABLE', absent, { cause });
  }
  if (outcome.code !== null) return outcome;
  throw new AuthenticationError('ERR_EAUTH_UNAVAILABLE', 'pam did not respond in time');
}
