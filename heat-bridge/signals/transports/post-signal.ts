/** TOKEN_SIGNAL and HEAT_SIGNAL: `POST` to the signal address of heat-api. */
import type { Exchange } from '../../outgoing/exchange.ts';
import { type Outcome, outcomeOf } from '../outcome.ts';
import { type Deliver, type Delivery, type DestinationOf, heatBody } from './delivery.ts';
import { logIn } from './keystone.ts';

/** The token is all there is: when it ends, so does the handle. */
export async function deliverTokenSignal(
  delivery: Delivery<DestinationOf<'TOKEN_SIGNAL'>>,
): Promise<Outcome> {
  const { url, token } = delivery.destination;
  return outcomeOf(await post(delivery, url, token), [200]);
}

/** Tokens are kept in memory until heat-api refuses one; then one log-in more decides. */
export function createHeatSignalDeliverer(): Deliver<DestinationOf<'HEAT_SIGNAL'>> {
  const tokens = new Map<string, string>();
  return async (delivery) => {
    const { alias, destination } = delivery;
    const key = JSON.stringify([alias, destination.userId]);
    const known = tokens.get(key);
    if (known !== undefined) {
      const exchange = await post(delivery, destination.url, known);
      if (exchange.kind !== 'answer' || exchange.status !== 401) return outcomeOf(exchange, [200]);
      tokens.delete(key);
    }
    const login = await logIn(delivery.ask, destination);
    if (!login.isIn) return login.outcome;
    const exchange = await post(delivery, destination.url, login.token);
    const outcome = outcomeOf(exchange, [200]);
    if (outcome.kind === 'delivered') keep(tokens, key, login.token);
    return outcome;
  };
}

const mostTokens = 10_000;

/** The oldest goes: that handle logs in once more. */
function keep(tokens: Map<string, string>, key: string, token: string): void {
  tokens.delete(key);
  tokens.set(key, token);
  const [oldest] = tokens.keys();
  if (tokens.size > mostTokens && oldest !== undefined) tokens.delete(oldest);
}

function post(delivery: Delivery, url: string, token: string): Promise<Exchange> {
  return delivery.ask({
    method: 'POST',
    url,
    headers: { 'x-auth-token': token },
    body: heatBody(delivery),
  });
}
