export {
  type EventFigures,
  Meter,
  meteredStore,
  metricFamilies,
  RequestCounters,
} from './metrics.ts';
