/** Logging in with Keystone v3 as the user of a handle. */
import { logInBody, tokensUrl } from '../../../master/index.ts';
import type { Credentials } from '../destination.ts';
import { type Outcome, outcomeOf } from '../outcome.ts';
import type { Delivery } from './delivery.ts';

/** Who is in, or why nobody is. */
export type LogIn =
  | { readonly isIn: true; readonly token: string; readonly body: string }
  | { readonly isIn: false; readonly outcome: Outcome };

/** Catalogs of large clouds have some tens of kilobytes. */
const maxCatalogBytes = 1_048_576;

/** A refusal is final: the user goes with its stack. */
export async function logIn(ask: Delivery['ask'], who: Credentials): Promise<LogIn> {
  const { authUrl, userId, password, projectId } = who;
  const exchange = await ask({
    method: 'POST',
    url: tokensUrl(authUrl),
    body: logInBody({ id: userId, password }, { id: projectId }),
    maxAnswerBytes: maxCatalogBytes,
  });
  const outcome = outcomeOf(exchange, [201]);
  if (outcome.kind === 'again' || exchange.kind !== 'answer') return { isIn: false, outcome };
  if (outcome.kind === 'final') {
    return { isIn: false, outcome: { ...outcome, reason: `log-in ${outcome.reason}` } };
  }
  const token = exchange.headers['x-subject-token'];
  if (typeof token !== 'string') {
    return { isIn: false, outcome: { kind: 'final', reason: 'log-in answered without a token' } };
  }
  return { isIn: true, token, body: exchange.body };
}
