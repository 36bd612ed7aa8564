/**
 * Log-in backend for accounts of this machine, through PAM [salt/auth/pam.py]. Node.js cannot call
 * libpam, so a pamtester process performs each check.
 */

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
      const user = await ownName(username, signal);
      return { user, groups: await groupsOf(user, signal) };
    },
    standingOf: async ({ user }, signal) => {
      // This check detects deleted and expired accounts. It does not detect accounts with a locked
      // password.
      const { code } = await run([service, user, 'acct_mgmt'], '', signal);
      if (code !== 0) return { state: 'gone' };
      return { state: 'valid', groups: await groupsOf(user, signal) };
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

/**
 * Returns the name of an account as the name service spells it. Name services such as sssd accept
 * other spellings too. If only PAM knows the account, the name is returned unchanged.
 */
async function ownName(user: string, signal: AbortSignal): Promise<string> {
  const { code, output } = await runProgram('id', ['-un', '--', user], { signal });
  const name = output.trim();
  return code === 0 && name !== '' ? name : user;
}

/** Returns the names of the groups of an account. */
async function groupsOf(user: string, signal: AbortSignal): Promise<readonly string[]> {
  const { code, output } = await runProgram('id', ['-Gn', '--', user], { signal });
  return code === 0 ? output.trim().split(/\s+/).filter(Boolean) : [];
}
