/** Every transport, by its name. */
import type { Outcome } from '../outcome.ts';
import type { Deliver, Delivery, DestinationOf } from './delivery.ts';
import { createHeatSignalDeliverer, deliverTokenSignal } from './post-signal.ts';
import { deliverAwsSignal, deliverCfnSignal } from './pre-signed.ts';
import { deliverTempUrlSignal } from './temp-url.ts';
import { deliverWebhook } from './webhook.ts';
import { deliverZaqarSignal } from './zaqar.ts';

/** Tries once, over the transport of the destination. */
export function createDeliverer(): (delivery: Delivery) => Promise<Outcome> {
  const deliverHeatSignal: Deliver<DestinationOf<'HEAT_SIGNAL'>> = createHeatSignalDeliverer();
  return (delivery) => {
    const { destination } = delivery;
    switch (destination.transport) {
      case 'AWS_SIGNAL':
        return deliverAwsSignal({ ...delivery, destination });
      case 'CFN_SIGNAL':
        return deliverCfnSignal({ ...delivery, destination });
      case 'TEMP_URL_SIGNAL':
        return deliverTempUrlSignal({ ...delivery, destination });
      case 'TOKEN_SIGNAL':
        return deliverTokenSignal({ ...delivery, destination });
      case 'HEAT_SIGNAL':
        return deliverHeatSignal({ ...delivery, destination });
      case 'ZAQAR_SIGNAL':
        return deliverZaqarSignal({ ...delivery, destination });
      case 'WEBHOOK':
        return deliverWebhook({ ...delivery, destination });
    }
  };
}
