/**
 * Accounts of this machine, asked through PAM [salt/auth/pam.py]. Node cannot call libpam, so the
 * program pamtester does it, in a process of its own that ends after each question.
 */

import type { LoginBackend } from './backend.ts';
import { AuthenticationError } from './errors.ts';
import { type ProgramOutcome, runProgram } from './run-program.ts';

const program = 'pamtester';
const absent = 'pam is not available here: the program pamtester is not installed';

/** @param service the PAM service; a log-in cannot choose it [THREATS C-14] */
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
      // Tells accounts that are gone or have expired; a locked password alone is none of its business.
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
  throw new AuthenticationError('ERR_EAUTH_UNAVAILABLE', 'pam took too long to answer');
}

/**
 * What the account is called itself: services of names such as sssd find it by other spellings too.
 * One that they do not know is only PAM's, and is called as it was given.
 */
async function ownName(user: string, signal: AbortSignal): Promise<string> {
  const { code, output } = await runProgram('id', ['-un', '--', user], { signal });
  const name = output.trim();
  return code === 0 && name !== '' ? name : user;
}

/** The names of the account's groups. */
async function groupsOf(user: string, signal: AbortSignal): Promise<readonly string[]> {
  const { code, output } = await runProgram('id', ['-Gn', '--', user], { signal });
  return code === 0 ? output.trim().split(/\s+/).filter(Boolean) : [];
}
