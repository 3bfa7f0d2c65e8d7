SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE FUNCTION public.ledger_account_in_order() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
            BEGIN
                IF 
        NEW.sequence <> (SELECT COALESCE(MAX(sequence) + 1, 0) FROM account WHERE dataset = NEW.dataset)
        OR NEW.epsilon_spent::numeric > NEW.epsilon_budget::numeric
        OR NEW.delta_spent::numeric > NEW.delta_budget::numeric
         THEN
                    RAISE EXCEPTION 'the new row of % breaks a rule of the ledger', TG_TABLE_NAME
                        USING ERRCODE = 'integrity_constraint_violation';
                END IF;
                RETURN NEW;
            END $$;
CREATE FUNCTION public.ledger_append_only() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
        BEGIN
            RAISE EXCEPTION 'the table % is append-only', TG_TABLE_NAME
                USING ERRCODE = 'integrity_constraint_violation';
        END $$;
CREATE FUNCTION public.ledger_entry_in_order() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
            BEGIN
                IF 
        NEW.position <> (SELECT COALESCE(MAX(position) + 1, 0) FROM entry)
        OR NEW.previous <> COALESCE((SELECT hash FROM entry ORDER BY position DESC LIMIT 1), '0000000000000000000000000000000000000000000000000000000000000000')
         THEN
                    RAISE EXCEPTION 'the new row of % breaks a rule of the ledger', TG_TABLE_NAME
                        USING ERRCODE = 'integrity_constraint_violation';
                END IF;
                RETURN NEW;
            END $$;
CREATE FUNCTION public.ledger_release_stage_in_order() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
            BEGIN
                IF 
        (NEW.stage = 'charged' AND EXISTS (SELECT 1 FROM release_stage WHERE release_id = NEW.release_id))
        OR (NEW.stage <> 'charged' AND NOT EXISTS (
            SELECT 1 FROM release_stage WHERE release_id = NEW.release_id AND stage = 'charged'))
        OR (NEW.stage = 'reading' AND EXISTS (
            SELECT 1 FROM release_stage WHERE release_id = NEW.release_id AND stage = 'closed'))
        OR (NEW.outcome = 'refunded' AND EXISTS (
            SELECT 1 FROM release_stage WHERE release_id = NEW.release_id AND stage = 'reading'))
        OR (NEW.outcome IN ('published', 'abandoned') AND NOT EXISTS (
            SELECT 1 FROM release_stage WHERE release_id = NEW.release_id AND stage = 'reading'))
         THEN
                    RAISE EXCEPTION 'the new row of % breaks a rule of the ledger', TG_TABLE_NAME
                        USING ERRCODE = 'integrity_constraint_violation';
                END IF;
                RETURN NEW;
            END $$;
CREATE FUNCTION public.ledger_series_release_in_order() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
            BEGIN
                IF 
        NOT EXISTS (
            SELECT 1 FROM series JOIN release ON release.dataset = series.dataset
            WHERE series.name = NEW.series AND release.release_id = NEW.release_id
            AND NEW.number <= series.releases)
        OR NEW.turn <> (
            SELECT COUNT(*) FROM series_release AS other
            JOIN release_stage AS ending ON ending.release_id = other.release_id AND ending.outcome = 'refunded'
            WHERE other.series = NEW.series AND other.number = NEW.number)
        OR NEW.turn <> (
            SELECT COUNT(*) FROM series_release AS other
            WHERE other.series = NEW.series AND other.number = NEW.number)
         THEN
                    RAISE EXCEPTION 'the new row of % breaks a rule of the ledger', TG_TABLE_NAME
                        USING ERRCODE = 'integrity_constraint_violation';
                END IF;
                RETURN NEW;
            END $$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.account (
    dataset text NOT NULL,
    sequence bigint NOT NULL,
    "position" bigint NOT NULL,
    epsilon_spent text NOT NULL,
    delta_spent text NOT NULL,
    epsilon_budget text NOT NULL,
    delta_budget text NOT NULL,
    CONSTRAINT account_sequence_check CHECK ((sequence >= 0))
);
CREATE TABLE public.dataset (
    name text NOT NULL,
    "position" bigint NOT NULL
);
CREATE TABLE public.entry (
    "position" bigint NOT NULL,
    previous text NOT NULL,
    hash text NOT NULL,
    kind text NOT NULL,
    body text NOT NULL,
    CONSTRAINT entry_check CHECK (((length(hash) = 64) AND (length(previous) = 64))),
    CONSTRAINT entry_position_check CHECK (("position" >= 0))
);
CREATE TABLE public.ledger_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.release (
    release_id text NOT NULL,
    dataset text NOT NULL,
    "position" bigint NOT NULL
);
CREATE TABLE public.release_stage (
    release_id text NOT NULL,
    stage text NOT NULL,
    outcome text NOT NULL,
    "position" bigint NOT NULL,
    CONSTRAINT release_stage_check CHECK ((((stage = ANY (ARRAY['charged'::text, 'reading'::text])) AND (outcome = stage)) OR ((stage = 'closed'::text) AND (outcome = ANY (ARRAY['published'::text, 'abandoned'::text, 'refunded'::text])))))
);
CREATE TABLE public.sample (
    sample_id text NOT NULL,
    release_id text NOT NULL,
    "position" bigint NOT NULL
);
CREATE TABLE public.series (
    name text NOT NULL,
    dataset text NOT NULL,
    releases bigint NOT NULL,
    "position" bigint NOT NULL,
    CONSTRAINT series_releases_check CHECK ((releases >= 1))
);
CREATE TABLE public.series_release (
    series text NOT NULL,
    number bigint NOT NULL,
    turn bigint NOT NULL,
    release_id text NOT NULL,
    "position" bigint NOT NULL,
    CONSTRAINT series_release_number_check CHECK ((number >= 1)),
    CONSTRAINT series_release_turn_check CHECK ((turn >= 0))
);
CREATE TABLE public.survey_use (
    dataset text NOT NULL,
    release_id text NOT NULL,
    "position" bigint NOT NULL
);
INSERT INTO public.account VALUES ('census', 0, 1, '0', '0', '10', '0.001');
INSERT INTO public.account VALUES ('survey', 0, 2, '0', '0', '10', '0.001');
INSERT INTO public.account VALUES ('Ünïcode “census”', 0, 3, '0', '0', '0.2', '0.001');
INSERT INTO public.account VALUES ('census', 1, 4, '0.18298860992', '0.000001', '10', '0.001');
INSERT INTO public.account VALUES ('survey', 1, 7, '0.18298860992', '0.000001', '10', '0.001');
INSERT INTO public.account VALUES ('census', 2, 10, '0.36597721984', '0.000002', '10', '0.001');
INSERT INTO public.account VALUES ('census', 3, 11, '0.18298860992', '0.000001', '10', '0.001');
INSERT INTO public.account VALUES ('census', 4, 12, '0.36597721984', '0.000002', '10', '0.001');
INSERT INTO public.account VALUES ('census', 5, 15, '0.36597721984', '0.000002', '11', '0.001');
INSERT INTO public.account VALUES ('Ünïcode “census”', 1, 18, '0.18298860992', '0.000001', '0.2', '0.001');
INSERT INTO public.account VALUES ('census', 6, 19, '0.61610308241', '0.000003', '11', '0.001');
INSERT INTO public.account VALUES ('census', 7, 30, '0.79909169233', '0.000004', '11', '0.001');
INSERT INTO public.account VALUES ('census', 8, 32, '0.98208030225', '0.000005', '11', '0.001');
INSERT INTO public.dataset VALUES ('census', 1);
INSERT INTO public.dataset VALUES ('survey', 2);
INSERT INTO public.dataset VALUES ('Ünïcode “census”', 3);
INSERT INTO public.entry VALUES (0, '0000000000000000000000000000000000000000000000000000000000000000', 'c6be40673aa1e857c9712602cd367c48d31bd9cf0ad37af9a07e360b619efee3', 'ledger-created/1', '{"kind":"ledger-created/1","ledger_id":"a2c74b87fe2b926e7d9a5845bfe14125e37efd22a65940bfd79e55a23be90ea7"}');
INSERT INTO public.entry VALUES (1, 'c6be40673aa1e857c9712602cd367c48d31bd9cf0ad37af9a07e360b619efee3', '354ace3de0169a2a3241eb3208ce11784aec6604e0b1ae073dda3baf1437bef0', 'dataset-added/1', '{"by":"steward","dataset":"census","day":"2026-03-04","delta":"0.001","epsilon":"10","kind":"dataset-added/1","relation":"add/remove","rows_per_person":1,"survey_rate":null}');
INSERT INTO public.entry VALUES (2, '354ace3de0169a2a3241eb3208ce11784aec6604e0b1ae073dda3baf1437bef0', '61cc2884e32cf8759088d70a60ab5909cdfb8babaec27e9e9d7de208ca8b1bb9', 'dataset-added/1', '{"by":"steward","dataset":"survey","day":"2026-03-04","delta":"0.001","epsilon":"10","kind":"dataset-added/1","relation":"add/remove","rows_per_person":1,"survey_rate":"0.05"}');
INSERT INTO public.entry VALUES (3, '61cc2884e32cf8759088d70a60ab5909cdfb8babaec27e9e9d7de208ca8b1bb9', '32fe119cbaf4a0cd613802ddbc16517844637056f8d655f6542a047e16d094ba', 'dataset-added/1', '{"by":"steward","dataset":"\u00dcn\u00efcode \u201ccensus\u201d","day":"2026-03-04","delta":"0.001","epsilon":"0.2","kind":"dataset-added/1","relation":"add/remove","rows_per_person":1,"survey_rate":null}');
INSERT INTO public.entry VALUES (4, '32fe119cbaf4a0cd613802ddbc16517844637056f8d655f6542a047e16d094ba', '69ef95892c442db03fd81ccfc676696668b772a5dc61ee0fecb3ecd4c4a5e571', 'release-charged/1', '{"code_version":"0.1.0","dataset":"census","day":"2026-03-04","epsilon_paper":"0.291941281812","kind":"release-charged/1","label":"census","map_digest":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","mechanism":{"k":20,"kind":"strongly-safe-release/1","sampling_rate":"0.1"},"price":{"delta":"0.000001","epsilon":"0.18298860992","relation":"add/remove","releases":1,"rule":"exact-profile/1"},"release_id":"one","sample_id":"7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed","sampler_layout":"chacha20-byte-first/1","series":null,"spec_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
INSERT INTO public.entry VALUES (5, '69ef95892c442db03fd81ccfc676696668b772a5dc61ee0fecb3ecd4c4a5e571', 'c180617444cc64bdd75ea8aca874cfad2d1ca5f2265f1a1e720ee6ba2222cc22', 'release-reading/1', '{"kind":"release-reading/1","release_id":"one"}');
INSERT INTO public.entry VALUES (6, 'c180617444cc64bdd75ea8aca874cfad2d1ca5f2265f1a1e720ee6ba2222cc22', '45ec0e9be39a31d45b8c3f85200022a964439a0b71f0990cd9d4987656e361d4', 'release-published/1', '{"kind":"release-published/1","output_hashes":{"data.csv":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"release_id":"one"}');
INSERT INTO public.entry VALUES (7, '45ec0e9be39a31d45b8c3f85200022a964439a0b71f0990cd9d4987656e361d4', '4a2b3669b267a6c81421459cbdcc347227fcc9b41cc1e55987edebc9679e3def', 'release-charged/1', '{"code_version":"0.1.0","dataset":"survey","day":"2026-03-04","epsilon_paper":"0.291941281812","kind":"release-charged/1","label":"census","map_digest":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","mechanism":{"k":20,"kind":"strongly-safe-release/1","sampling_rate":"0.1"},"price":{"delta":"0.000001","epsilon":"0.18298860992","relation":"add/remove","releases":1,"rule":"exact-profile/1"},"release_id":"of-survey","sample_id":"a332d305585e33344f76f856e8d313429cec28a2e6f9c7807ab7fa1d1748f0a2","sampler_layout":"chacha20-byte-first/1","series":null,"spec_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
INSERT INTO public.entry VALUES (8, '4a2b3669b267a6c81421459cbdcc347227fcc9b41cc1e55987edebc9679e3def', '6977f802afa89311bb4e57d91005b7a093d7e60f161889c136965c672dab8440', 'release-reading/1', '{"kind":"release-reading/1","release_id":"of-survey"}');
INSERT INTO public.entry VALUES (9, '6977f802afa89311bb4e57d91005b7a093d7e60f161889c136965c672dab8440', 'a65dcada9c15364d749221cba0c400747893ed2d1edfb8a31499f16ba8d97d67', 'release-published/1', '{"kind":"release-published/1","output_hashes":{"data.csv":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"release_id":"of-survey"}');
INSERT INTO public.entry VALUES (10, 'a65dcada9c15364d749221cba0c400747893ed2d1edfb8a31499f16ba8d97d67', 'a95d9f231633bc57d8664091ddeefc14091613c7d295f42a8c09b35a9e83f04b', 'release-charged/1', '{"code_version":"0.1.0","dataset":"census","day":"2026-03-04","epsilon_paper":"0.291941281812","kind":"release-charged/1","label":"census","map_digest":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","mechanism":{"k":20,"kind":"strongly-safe-release/1","sampling_rate":"0.1"},"price":{"delta":"0.000001","epsilon":"0.18298860992","relation":"add/remove","releases":1,"rule":"exact-profile/1"},"release_id":"refunded","sample_id":"fed1ce9f9259663d94839735b4de9d70c4f38201af6a980d5e53cfecfae97466","sampler_layout":"chacha20-byte-first/1","series":null,"spec_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
INSERT INTO public.entry VALUES (11, 'a95d9f231633bc57d8664091ddeefc14091613c7d295f42a8c09b35a9e83f04b', '27985b32168f31f40dfb1e5597d0c16877bf9519c1f7e0f8c2971ff05c2b2b06', 'release-abandoned/1', '{"by":"operator","day":"2026-03-04","kind":"release-abandoned/1","reason":"a test","refunded":true,"release_id":"refunded"}');
INSERT INTO public.entry VALUES (12, '27985b32168f31f40dfb1e5597d0c16877bf9519c1f7e0f8c2971ff05c2b2b06', '0aa98ca6dbeefabb9ba3d478826a6b63a39b6490676465515df55214a1d66287', 'release-charged/1', '{"code_version":"0.1.0","dataset":"census","day":"2026-03-04","epsilon_paper":"0.291941281812","kind":"release-charged/1","label":"census","map_digest":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","mechanism":{"k":20,"kind":"strongly-safe-release/1","sampling_rate":"0.1"},"price":{"delta":"0.000001","epsilon":"0.18298860992","relation":"add/remove","releases":1,"rule":"exact-profile/1"},"release_id":"burnt","sample_id":"8bd1c5cb837eb8a4bf13bb88f8a7922d84d2b98b192bc698e1a8058d0a97e0fd","sampler_layout":"chacha20-byte-first/1","series":null,"spec_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
INSERT INTO public.entry VALUES (13, '0aa98ca6dbeefabb9ba3d478826a6b63a39b6490676465515df55214a1d66287', '0c322214b1fc6f721ecadf4839ac954d8bdff4d5c043dad0545b91ab7e87808d', 'release-reading/1', '{"kind":"release-reading/1","release_id":"burnt"}');
INSERT INTO public.entry VALUES (14, '0c322214b1fc6f721ecadf4839ac954d8bdff4d5c043dad0545b91ab7e87808d', '3a8c1073c47a2ce07d20d321615d27cb7fe442dc7adcc5791cbeb44f1e2cec1b', 'release-abandoned/1', '{"by":"operator","day":"2026-03-04","kind":"release-abandoned/1","reason":"a test","refunded":false,"release_id":"burnt"}');
INSERT INTO public.entry VALUES (15, '3a8c1073c47a2ce07d20d321615d27cb7fe442dc7adcc5791cbeb44f1e2cec1b', 'f1af2b29aaf385a3f3b7c345bc4a06e2d4e624ac111357bca5ebc524ddc03d9b', 'budget-raised/1', '{"by":"steward","dataset":"census","day":"2026-03-04","delta":"0.001","epsilon":"11","kind":"budget-raised/1","reason":"a second year"}');
INSERT INTO public.entry VALUES (16, 'f1af2b29aaf385a3f3b7c345bc4a06e2d4e624ac111357bca5ebc524ddc03d9b', 'c1f3240622cce7b3a4ecb33a1bec1ee06a7b82b975cb17d4c911f11ee6970e1e', 'release-refused/1', '{"cause":"release-known","dataset":"census","day":"2026-03-04","kind":"release-refused/1","reason":"release ''one'': this release id is in the ledger already (published). Nothing was read or published. Resume that release, or use another id.","release_id":"one"}');
INSERT INTO public.entry VALUES (17, 'c1f3240622cce7b3a4ecb33a1bec1ee06a7b82b975cb17d4c911f11ee6970e1e', 'eab1a534ad40b0767376b5f7994de67f2bbea03ab25f190074c91bc1a0d4b1d0', 'release-refused/1', '{"cause":"survey-released","dataset":"survey","day":"2026-03-04","kind":"release-refused/1","reason":"dataset ''survey'': it is itself a sample, can be released once, and has been: its sampling was part of that price (release ''of-survey''). Nothing was read or published. Use what was published.","release_id":"again"}');
INSERT INTO public.entry VALUES (18, 'eab1a534ad40b0767376b5f7994de67f2bbea03ab25f190074c91bc1a0d4b1d0', '3283915d4712684f9ea9e2ad7296854474da6f12098f1ac357a293e1bc94e4ad', 'release-charged/1', '{"code_version":"0.1.0","dataset":"\u00dcn\u00efcode \u201ccensus\u201d","day":"2026-03-04","epsilon_paper":"0.291941281812","kind":"release-charged/1","label":"census","map_digest":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","mechanism":{"k":20,"kind":"strongly-safe-release/1","sampling_rate":"0.1"},"price":{"delta":"0.000001","epsilon":"0.18298860992","relation":"add/remove","releases":1,"rule":"exact-profile/1"},"release_id":"dear","sample_id":"5f4d44dfaa1b1ed72a8a3e963500a05d0f55829ac42af044e33f39c9f6f71a3a","sampler_layout":"chacha20-byte-first/1","series":null,"spec_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
INSERT INTO public.entry VALUES (19, '3283915d4712684f9ea9e2ad7296854474da6f12098f1ac357a293e1bc94e4ad', 'e88f092bfccbaf76210d2fdcad6146d41bed12f8546ea4215af4fb9f225dd8ad', 'series-registered/1', '{"dataset":"census","day":"2026-03-04","epsilon_paper":"0.952489005489","kind":"series-registered/1","map_digest":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","mechanism":{"k":20,"kind":"strongly-safe-release/1","sampling_rate":"0.1"},"price":{"delta":"0.000001","epsilon":"0.25012586257","relation":"add/remove","releases":3,"rule":"pld/1"},"series":"monthly","spec_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"}');
INSERT INTO public.entry VALUES (20, 'e88f092bfccbaf76210d2fdcad6146d41bed12f8546ea4215af4fb9f225dd8ad', 'f1b16bd3dd05b61c6a6d9308f02c4ca9c1ee3c259cbdc3d6a3eed3bd357dff04', 'release-charged/1', '{"code_version":"0.1.0","dataset":"census","day":"2026-03-04","epsilon_paper":"0.952489005489","kind":"release-charged/1","label":"census","map_digest":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","mechanism":{"k":20,"kind":"strongly-safe-release/1","sampling_rate":"0.1"},"price":{"delta":"0.000001","epsilon":"0.25012586257","relation":"add/remove","releases":3,"rule":"pld/1"},"release_id":"given-back","sample_id":"94569eae92bc8fa5e3292fcc9ea74277ff6ad08458a628289825eea69153e0f5","sampler_layout":"chacha20-byte-first/1","series":{"name":"monthly","number":1,"spec_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"spec_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
INSERT INTO public.entry VALUES (21, 'f1b16bd3dd05b61c6a6d9308f02c4ca9c1ee3c259cbdc3d6a3eed3bd357dff04', '9e81dbe0f0e151bdb60bab414cb1dc33f4ca849f7db3f2b8d44b4149cab64955', 'release-abandoned/1', '{"by":"operator","day":"2026-03-04","kind":"release-abandoned/1","reason":"a test","refunded":true,"release_id":"given-back"}');
INSERT INTO public.entry VALUES (22, '9e81dbe0f0e151bdb60bab414cb1dc33f4ca849f7db3f2b8d44b4149cab64955', 'd43db4c50fac0e5553831affa5c6fe1fb5170b84984537e490e157e266b60766', 'release-charged/1', '{"code_version":"0.1.0","dataset":"census","day":"2026-03-04","epsilon_paper":"0.952489005489","kind":"release-charged/1","label":"census","map_digest":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","mechanism":{"k":20,"kind":"strongly-safe-release/1","sampling_rate":"0.1"},"price":{"delta":"0.000001","epsilon":"0.25012586257","relation":"add/remove","releases":3,"rule":"pld/1"},"release_id":"of-series-0","sample_id":"1211685d8b6bf1b72a2a6f5fb78520dc1b357c85aac50c046c44065899ea5e43","sampler_layout":"chacha20-byte-first/1","series":{"name":"monthly","number":2,"spec_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"spec_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
INSERT INTO public.entry VALUES (23, 'd43db4c50fac0e5553831affa5c6fe1fb5170b84984537e490e157e266b60766', '381f532bb4cd5431a488a608f16a340c42e8879cd31b6d38e94f03777f52d228', 'release-reading/1', '{"kind":"release-reading/1","release_id":"of-series-0"}');
INSERT INTO public.entry VALUES (24, '381f532bb4cd5431a488a608f16a340c42e8879cd31b6d38e94f03777f52d228', '42b35c1e7bf9ced546e89a69de5f93e926b25b47aec90d833ccd32eebd6a655d', 'release-published/1', '{"kind":"release-published/1","output_hashes":{"data.csv":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"release_id":"of-series-0"}');
INSERT INTO public.entry VALUES (25, '42b35c1e7bf9ced546e89a69de5f93e926b25b47aec90d833ccd32eebd6a655d', '5718faea10c12b483a9b1892497dc8cdc09ba51e50d20aa988b215e087b21073', 'release-charged/1', '{"code_version":"0.1.0","dataset":"census","day":"2026-03-04","epsilon_paper":"0.952489005489","kind":"release-charged/1","label":"census","map_digest":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","mechanism":{"k":20,"kind":"strongly-safe-release/1","sampling_rate":"0.1"},"price":{"delta":"0.000001","epsilon":"0.25012586257","relation":"add/remove","releases":3,"rule":"pld/1"},"release_id":"of-series-1","sample_id":"c37a8b40233ae1e5d0385d8c045db5422fb246f2aff9f918e6f973ca4b4ac950","sampler_layout":"chacha20-byte-first/1","series":{"name":"monthly","number":3,"spec_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"spec_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
INSERT INTO public.entry VALUES (26, '5718faea10c12b483a9b1892497dc8cdc09ba51e50d20aa988b215e087b21073', '0fd83bba5105f840b37961f50e988f9798df26a0a444e07c11214f9cc57d3247', 'release-charged/1', '{"code_version":"0.1.0","dataset":"census","day":"2026-03-04","epsilon_paper":"0.952489005489","kind":"release-charged/1","label":"census","map_digest":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","mechanism":{"k":20,"kind":"strongly-safe-release/1","sampling_rate":"0.1"},"price":{"delta":"0.000001","epsilon":"0.25012586257","relation":"add/remove","releases":3,"rule":"pld/1"},"release_id":"of-series-2","sample_id":"f065086ffb0607b8184144fb216699b6b1f5b61c1a4b2b9c7b91cf11d20e9200","sampler_layout":"chacha20-byte-first/1","series":{"name":"monthly","number":1,"spec_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"spec_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
INSERT INTO public.entry VALUES (27, '0fd83bba5105f840b37961f50e988f9798df26a0a444e07c11214f9cc57d3247', '77768813dd620ccf6233c16f425709d93afc91a6384018082958d161fd19a061', 'release-refused/1', '{"cause":"series-finished","dataset":"census","day":"2026-03-04","kind":"release-refused/1","reason":"series ''monthly'': all its 3 releases are taken. Nothing was read or published. Register another series, which is charged anew.","release_id":"too-many"}');
INSERT INTO public.entry VALUES (28, '77768813dd620ccf6233c16f425709d93afc91a6384018082958d161fd19a061', '32319f9385c750ad0d0d0f57823fb749154af6d7695db1ed0186e76ffd6af89a', 'token-added/1', '{"by":"steward","day":"2026-03-04","expires":"2026-06-02","kind":"token-added/1","name":"the auditors","secret_digest":"db031752c3432a05d4a6ff7f9bea753c8a8677131febbe813aec4f7d3372c4b9","token_id":"2c2c2c2c2c2c2c2c"}');
INSERT INTO public.entry VALUES (29, '32319f9385c750ad0d0d0f57823fb749154af6d7695db1ed0186e76ffd6af89a', '5481a542c0aad87f0568f39c92ab385a22665c43d6419a88cd8dbdced80bdbfb', 'token-revoked/1', '{"by":"steward","day":"2026-03-04","kind":"token-revoked/1","token_id":"2c2c2c2c2c2c2c2c"}');
INSERT INTO public.entry VALUES (30, '5481a542c0aad87f0568f39c92ab385a22665c43d6419a88cd8dbdced80bdbfb', 'f744bd72f85a3e84f2c43b9a960e883dc658887719c7d819780b5ca6b1df41d9', 'release-charged/1', '{"code_version":"0.1.0","dataset":"census","day":"2026-03-04","epsilon_paper":"0.291941281812","kind":"release-charged/1","label":"census","map_digest":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","mechanism":{"k":20,"kind":"strongly-safe-release/1","sampling_rate":"0.1"},"price":{"delta":"0.000001","epsilon":"0.18298860992","relation":"add/remove","releases":1,"rule":"exact-profile/1"},"release_id":"reading","sample_id":"d70afca615203838da3d858e60dda12f900e83e4a6fb03a63cfadb8576ca8985","sampler_layout":"chacha20-byte-first/1","series":null,"spec_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
INSERT INTO public.entry VALUES (31, 'f744bd72f85a3e84f2c43b9a960e883dc658887719c7d819780b5ca6b1df41d9', '2dbad728c0f5db9cc7b9b6a0f2d8576c0e98f8de0ae1d2691ab5c7b487bbaaf3', 'release-reading/1', '{"kind":"release-reading/1","release_id":"reading"}');
INSERT INTO public.entry VALUES (32, '2dbad728c0f5db9cc7b9b6a0f2d8576c0e98f8de0ae1d2691ab5c7b487bbaaf3', '7fbe2132c8cc2f80138f3efebbf73bb21cf99ef0b1bf00c7fe9ef406e024a9f3', 'release-charged/1', '{"code_version":"0.1.0","dataset":"census","day":"2026-03-04","epsilon_paper":"0.291941281812","kind":"release-charged/1","label":"census","map_digest":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","mechanism":{"k":20,"kind":"strongly-safe-release/1","sampling_rate":"0.1"},"price":{"delta":"0.000001","epsilon":"0.18298860992","relation":"add/remove","releases":1,"rule":"exact-profile/1"},"release_id":"charged","sample_id":"dd523503463fecf34a95c42a566eaadb29c512d773afd9f566522242336c7fba","sampler_layout":"chacha20-byte-first/1","series":null,"spec_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
INSERT INTO public.ledger_version VALUES ('0001');
INSERT INTO public.release VALUES ('one', 'census', 4);
INSERT INTO public.release VALUES ('of-survey', 'survey', 7);
INSERT INTO public.release VALUES ('refunded', 'census', 10);
INSERT INTO public.release VALUES ('burnt', 'census', 12);
INSERT INTO public.release VALUES ('dear', 'Ünïcode “census”', 18);
INSERT INTO public.release VALUES ('given-back', 'census', 20);
INSERT INTO public.release VALUES ('of-series-0', 'census', 22);
INSERT INTO public.release VALUES ('of-series-1', 'census', 25);
INSERT INTO public.release VALUES ('of-series-2', 'census', 26);
INSERT INTO public.release VALUES ('reading', 'census', 30);
INSERT INTO public.release VALUES ('charged', 'census', 32);
INSERT INTO public.release_stage VALUES ('one', 'charged', 'charged', 4);
INSERT INTO public.release_stage VALUES ('one', 'reading', 'reading', 5);
INSERT INTO public.release_stage VALUES ('one', 'closed', 'published', 6);
INSERT INTO public.release_stage VALUES ('of-survey', 'charged', 'charged', 7);
INSERT INTO public.release_stage VALUES ('of-survey', 'reading', 'reading', 8);
INSERT INTO public.release_stage VALUES ('of-survey', 'closed', 'published', 9);
INSERT INTO public.release_stage VALUES ('refunded', 'charged', 'charged', 10);
INSERT INTO public.release_stage VALUES ('refunded', 'closed', 'refunded', 11);
INSERT INTO public.release_stage VALUES ('burnt', 'charged', 'charged', 12);
INSERT INTO public.release_stage VALUES ('burnt', 'reading', 'reading', 13);
INSERT INTO public.release_stage VALUES ('burnt', 'closed', 'abandoned', 14);
INSERT INTO public.release_stage VALUES ('dear', 'charged', 'charged', 18);
INSERT INTO public.release_stage VALUES ('given-back', 'charged', 'charged', 20);
INSERT INTO public.release_stage VALUES ('given-back', 'closed', 'refunded', 21);
INSERT INTO public.release_stage VALUES ('of-series-0', 'charged', 'charged', 22);
INSERT INTO public.release_stage VALUES ('of-series-0', 'reading', 'reading', 23);
INSERT INTO public.release_stage VALUES ('of-series-0', 'closed', 'published', 24);
INSERT INTO public.release_stage VALUES ('of-series-1', 'charged', 'charged', 25);
INSERT INTO public.release_stage VALUES ('of-series-2', 'charged', 'charged', 26);
INSERT INTO public.release_stage VALUES ('reading', 'charged', 'charged', 30);
INSERT INTO public.release_stage VALUES ('reading', 'reading', 'reading', 31);
INSERT INTO public.release_stage VALUES ('charged', 'charged', 'charged', 32);
INSERT INTO public.sample VALUES ('7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed', 'one', 4);
INSERT INTO public.sample VALUES ('a332d305585e33344f76f856e8d313429cec28a2e6f9c7807ab7fa1d1748f0a2', 'of-survey', 7);
INSERT INTO public.sample VALUES ('fed1ce9f9259663d94839735b4de9d70c4f38201af6a980d5e53cfecfae97466', 'refunded', 10);
INSERT INTO public.sample VALUES ('8bd1c5cb837eb8a4bf13bb88f8a7922d84d2b98b192bc698e1a8058d0a97e0fd', 'burnt', 12);
INSERT INTO public.sample VALUES ('5f4d44dfaa1b1ed72a8a3e963500a05d0f55829ac42af044e33f39c9f6f71a3a', 'dear', 18);
INSERT INTO public.sample VALUES ('94569eae92bc8fa5e3292fcc9ea74277ff6ad08458a628289825eea69153e0f5', 'given-back', 20);
INSERT INTO public.sample VALUES ('1211685d8b6bf1b72a2a6f5fb78520dc1b357c85aac50c046c44065899ea5e43', 'of-series-0', 22);
INSERT INTO public.sample VALUES ('c37a8b40233ae1e5d0385d8c045db5422fb246f2aff9f918e6f973ca4b4ac950', 'of-series-1', 25);
INSERT INTO public.sample VALUES ('f065086ffb0607b8184144fb216699b6b1f5b61c1a4b2b9c7b91cf11d20e9200', 'of-series-2', 26);
INSERT INTO public.sample VALUES ('d70afca615203838da3d858e60dda12f900e83e4a6fb03a63cfadb8576ca8985', 'reading', 30);
INSERT INTO public.sample VALUES ('dd523503463fecf34a95c42a566eaadb29c512d773afd9f566522242336c7fba', 'charged', 32);
INSERT INTO public.series VALUES ('monthly', 'census', 3, 19);
INSERT INTO public.series_release VALUES ('monthly', 1, 0, 'given-back', 20);
INSERT INTO public.series_release VALUES ('monthly', 2, 0, 'of-series-0', 22);
INSERT INTO public.series_release VALUES ('monthly', 3, 0, 'of-series-1', 25);
INSERT INTO public.series_release VALUES ('monthly', 1, 1, 'of-series-2', 26);
INSERT INTO public.survey_use VALUES ('survey', 'of-survey', 8);
ALTER TABLE ONLY public.account
    ADD CONSTRAINT account_pkey PRIMARY KEY (dataset, sequence);
ALTER TABLE ONLY public.account
    ADD CONSTRAINT account_position_key UNIQUE ("position");
ALTER TABLE ONLY public.dataset
    ADD CONSTRAINT dataset_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.dataset
    ADD CONSTRAINT dataset_position_key UNIQUE ("position");
ALTER TABLE ONLY public.entry
    ADD CONSTRAINT entry_hash_key UNIQUE (hash);
ALTER TABLE ONLY public.entry
    ADD CONSTRAINT entry_pkey PRIMARY KEY ("position");
ALTER TABLE ONLY public.entry
    ADD CONSTRAINT entry_previous_key UNIQUE (previous);
ALTER TABLE ONLY public.ledger_version
    ADD CONSTRAINT ledger_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.release
    ADD CONSTRAINT release_pkey PRIMARY KEY (release_id);
ALTER TABLE ONLY public.release
    ADD CONSTRAINT release_position_key UNIQUE ("position");
ALTER TABLE ONLY public.release_stage
    ADD CONSTRAINT release_stage_pkey PRIMARY KEY (release_id, stage);
ALTER TABLE ONLY public.release_stage
    ADD CONSTRAINT release_stage_position_key UNIQUE ("position");
ALTER TABLE ONLY public.sample
    ADD CONSTRAINT sample_pkey PRIMARY KEY (sample_id);
ALTER TABLE ONLY public.sample
    ADD CONSTRAINT sample_position_key UNIQUE ("position");
ALTER TABLE ONLY public.sample
    ADD CONSTRAINT sample_release_id_key UNIQUE (release_id);
ALTER TABLE ONLY public.series
    ADD CONSTRAINT series_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.series
    ADD CONSTRAINT series_position_key UNIQUE ("position");
ALTER TABLE ONLY public.series_release
    ADD CONSTRAINT series_release_pkey PRIMARY KEY (series, number, turn);
ALTER TABLE ONLY public.series_release
    ADD CONSTRAINT series_release_position_key UNIQUE ("position");
ALTER TABLE ONLY public.series_release
    ADD CONSTRAINT series_release_release_id_key UNIQUE (release_id);
ALTER TABLE ONLY public.survey_use
    ADD CONSTRAINT survey_use_pkey PRIMARY KEY (dataset);
ALTER TABLE ONLY public.survey_use
    ADD CONSTRAINT survey_use_position_key UNIQUE ("position");
ALTER TABLE ONLY public.survey_use
    ADD CONSTRAINT survey_use_release_id_key UNIQUE (release_id);
CREATE INDEX ix_release_dataset ON public.release USING btree (dataset);
CREATE TRIGGER account_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.account FOR EACH STATEMENT EXECUTE FUNCTION public.ledger_append_only();
CREATE TRIGGER account_in_order BEFORE INSERT ON public.account FOR EACH ROW EXECUTE FUNCTION public.ledger_account_in_order();
CREATE TRIGGER dataset_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.dataset FOR EACH STATEMENT EXECUTE FUNCTION public.ledger_append_only();
CREATE TRIGGER entry_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.entry FOR EACH STATEMENT EXECUTE FUNCTION public.ledger_append_only();
CREATE TRIGGER entry_in_order BEFORE INSERT ON public.entry FOR EACH ROW EXECUTE FUNCTION public.ledger_entry_in_order();
CREATE TRIGGER release_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.release FOR EACH STATEMENT EXECUTE FUNCTION public.ledger_append_only();
CREATE TRIGGER release_stage_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.release_stage FOR EACH STATEMENT EXECUTE FUNCTION public.ledger_append_only();
CREATE TRIGGER release_stage_in_order BEFORE INSERT ON public.release_stage FOR EACH ROW EXECUTE FUNCTION public.ledger_release_stage_in_order();
CREATE TRIGGER sample_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.sample FOR EACH STATEMENT EXECUTE FUNCTION public.ledger_append_only();
CREATE TRIGGER series_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.series FOR EACH STATEMENT EXECUTE FUNCTION public.ledger_append_only();
CREATE TRIGGER series_release_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.series_release FOR EACH STATEMENT EXECUTE FUNCTION public.ledger_append_only();
CREATE TRIGGER series_release_in_order BEFORE INSERT ON public.series_release FOR EACH ROW EXECUTE FUNCTION public.ledger_series_release_in_order();
CREATE TRIGGER survey_use_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.survey_use FOR EACH STATEMENT EXECUTE FUNCTION public.ledger_append_only();
ALTER TABLE ONLY public.account
    ADD CONSTRAINT account_dataset_fkey FOREIGN KEY (dataset) REFERENCES public.dataset(name);
ALTER TABLE ONLY public.account
    ADD CONSTRAINT account_position_fkey FOREIGN KEY ("position") REFERENCES public.entry("position");
ALTER TABLE ONLY public.dataset
    ADD CONSTRAINT dataset_position_fkey FOREIGN KEY ("position") REFERENCES public.entry("position");
ALTER TABLE ONLY public.release
    ADD CONSTRAINT release_dataset_fkey FOREIGN KEY (dataset) REFERENCES public.dataset(name);
ALTER TABLE ONLY public.release
    ADD CONSTRAINT release_position_fkey FOREIGN KEY ("position") REFERENCES public.entry("position");
ALTER TABLE ONLY public.release_stage
    ADD CONSTRAINT release_stage_position_fkey FOREIGN KEY ("position") REFERENCES public.entry("position");
ALTER TABLE ONLY public.release_stage
    ADD CONSTRAINT release_stage_release_id_fkey FOREIGN KEY (release_id) REFERENCES public.release(release_id);
ALTER TABLE ONLY public.sample
    ADD CONSTRAINT sample_position_fkey FOREIGN KEY ("position") REFERENCES public.entry("position");
ALTER TABLE ONLY public.sample
    ADD CONSTRAINT sample_release_id_fkey FOREIGN KEY (release_id) REFERENCES public.release(release_id);
ALTER TABLE ONLY public.series
    ADD CONSTRAINT series_dataset_fkey FOREIGN KEY (dataset) REFERENCES public.dataset(name);
ALTER TABLE ONLY public.series
    ADD CONSTRAINT series_position_fkey FOREIGN KEY ("position") REFERENCES public.entry("position");
ALTER TABLE ONLY public.series_release
    ADD CONSTRAINT series_release_position_fkey FOREIGN KEY ("position") REFERENCES public.entry("position");
ALTER TABLE ONLY public.series_release
    ADD CONSTRAINT series_release_release_id_fkey FOREIGN KEY (release_id) REFERENCES public.release(release_id);
ALTER TABLE ONLY public.series_release
    ADD CONSTRAINT series_release_series_fkey FOREIGN KEY (series) REFERENCES public.series(name);
ALTER TABLE ONLY public.survey_use
    ADD CONSTRAINT survey_use_dataset_fkey FOREIGN KEY (dataset) REFERENCES public.dataset(name);
ALTER TABLE ONLY public.survey_use
    ADD CONSTRAINT survey_use_position_fkey FOREIGN KEY ("position") REFERENCES public.entry("position");
ALTER TABLE ONLY public.survey_use
    ADD CONSTRAINT survey_use_release_id_fkey FOREIGN KEY (release_id) REFERENCES public.release(release_id);
