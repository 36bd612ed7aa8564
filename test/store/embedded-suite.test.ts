import { openEmbeddedStore } from '../../store/index.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { storeSuite } from '../store-suite/suite.ts';

storeSuite('embedded', (t, now) => openEmbeddedStore({ directory: temporaryDirectory(t), now }));
