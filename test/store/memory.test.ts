import { createMemoryStore } from '../../store/index.ts';
import { storeSuite } from '../store-suite/suite.ts';

storeSuite('memory', async (_t, now) => createMemoryStore({ now }));
