/** CFN_SIGNAL and the AWS handle: `PUT` to a pre-signed address of heat-api-cfn. */
import { writeJson } from '../../../runtime/index.ts';
import { type Outcome, outcomeOf, wordsOf } from '../outcome.ts';
import { type Delivery, type DestinationOf, heatBody } from './delivery.ts';

/**
 * heat-api-cfn answers 500 also where it will never take the signal, and takes a minute for some; a
 * signal that it refuses so often is given up.
 */
const most500s = 4;

export function deliverCfnSignal(
  delivery: Delivery<DestinationOf<'CFN_SIGNAL'>>,
): Promise<Outcome> {
  return put(delivery, delivery.destination.url, heatBody(delivery));
}

/** All four fields are required, and all are text [heat AWS::CloudFormation::WaitConditionHandle]. */
export function deliverAwsSignal(
  delivery: Delivery<DestinationOf<'AWS_SIGNAL'>>,
): Promise<Outcome> {
  const { status, reason = 'signal received', data = '' } = delivery.signal;
  const body = JSON.stringify({
    Status: status,
    Reason: reason,
    Data: typeof data === 'string' ? data : writeJson(data),
    UniqueId: delivery.signalId,
  });
  return put(delivery, delivery.destination.url, body);
}

async function put(delivery: Delivery, url: string, body: string): Promise<Outcome> {
  const exchange = await delivery.ask({ method: 'PUT', url, body });
  if (exchange.kind === 'answer' && exchange.status === 500 && delivery.failures + 1 >= most500s) {
    return { kind: 'final', reason: wordsOf(exchange) };
  }
  return outcomeOf(exchange, [200]);
}
